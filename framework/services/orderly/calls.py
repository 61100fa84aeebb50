"""How the handler of an orderly line is called: a worker, or a thread, goes along the line while all is plain success.

A message ends where it stands, and the next begins: the pull loop hears of all of them at once. Where a handler
suspends, it hears of those before: one that hangs keeps no offset back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from framework.core.expiry import LineSlot
from framework.core.line import Place, Portion
from framework.core.window import Window
from framework.model.message import Message
from framework.ports import Clock, Workers
from framework.services.call.batch_calls import Batching, Results, results_of
from framework.services.call.run_once import at_once, failure_awaited, heeded, on_thread
from framework.services.orderly.desk import Lane
from framework.services.pool.run import RUNNING

RUN_SECONDS = 0.02  # how long a worker or a thread goes on before it comes home, so that offsets move


class OrderCalls:
    """It decides nothing: so many messages were plain success, and then there was a result or there was none."""

    def __init__(self, clock: Clock, workers: Workers, tell: Callable[[Lane], None]) -> None:
        """`tell` lets the pull loop know of what is `unsaid`."""
        self._clock, self._workers, self._tell = clock, workers, tell

    async def run(self, lane: Lane, portion: Portion, message: Message) -> tuple[int, object]:
        """From the portion's next message on, which is `message` as it is tried now."""
        lane.at = portion
        entered = self._clock.monotonic()
        if lane.desk.how.is_async:
            ended, result = await self._awaited(lane, portion, message)
        else:
            slot = _slot_of(lane, portion.window)
            RUNNING.set(slot)
            ended, result = await on_thread(self._workers, self._threaded(lane, portion, message, slot))
            slot.worker = None
        portion.chunk.spent += self._clock.monotonic() - entered
        return ended, result

    async def _awaited(self, lane: Lane, portion: Portion, message: Message) -> tuple[int, object]:
        """Each message's way: tests/house counts its calls. The last one's end is left to who decides about it."""
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None, "only a task awaits a handler"
        call, lease, line, monotonic = lane.desk.pull.call, lane.desk.lease, lane.line, self._clock.monotonic
        slot = _slot_of(lane, portion.window)
        slot.worker = task
        RUNNING.set(slot)
        now = monotonic()
        until, current = now + RUN_SECONDS, message
        while True:
            slot.message, lane.started = current, now
            try:
                result: object = await call(current)
            except BaseException as error:  # noqa: BLE001 - border: the handler's
                result = failure_awaited(error)
            if task.cancelling():
                await heeded(task)
            now = monotonic()
            if result is not None or now > until or now * 1000 >= lease.until_ms:
                break
            following = line.went_well(portion, int(now * 1000))
            if following is None:
                break
            current = following
            lane.unsaid += 1
            if lane.unsaid == 1:
                loop.call_soon(self._tell, lane)
        slot.message = slot.worker = None  # a task whose context has the slot, and which ends: no circle is left of it
        return int(result is None), result

    async def run_batch(self, lane: Lane, places: Sequence[Place], batching: Batching) -> Results:
        """As the batch's call makes them of the handler's answer; an empty list if it did not start."""
        entered = lane.started = self._clock.monotonic()
        messages = [lane.line.as_tried(portion, index) for portion, index in places]
        slot = _slot_of(lane, places[0][0].window)
        slot.message, slot.batch, slot.worker = None, len(messages), asyncio.current_task()
        RUNNING.set(slot)
        window, lease, clock = slot.window, lane.desk.lease, self._clock

        def in_time(messages: Sequence[Message]) -> Results:
            """In a thread, which may begin late: when the queue has been moved, or its lease is over."""
            is_over = window.is_closed or not lease.holds(int(clock.monotonic() * 1000))
            return [] if is_over else batching.call(messages)

        is_async = batching.is_async
        call = batching.call if is_async else in_time
        results = await results_of(call, messages, is_async=is_async, workers=self._workers)
        slot.batch, slot.worker = 0, None
        places[0][0].chunk.spent += self._clock.monotonic() - entered
        return results

    def _threaded(
        self, lane: Lane, portion: Portion, message: Message, slot: LineSlot
    ) -> Callable[[], tuple[int, object]]:
        """For a thread: messages in order for as long as each is plain success. It writes nothing that others write."""
        call, lease, clock, first = lane.desk.pull.call, lane.desk.lease, self._clock, portion.next

        def serve() -> tuple[int, object]:
            until = clock.monotonic() + RUN_SECONDS
            index, current = first, message
            while True:
                started = lane.started = clock.monotonic()
                window = portion.window
                is_over = window.is_closed or (window.is_draining and current.queue_offset >= window.drains_to)
                if started > until or is_over or not lease.holds(int(started * 1000)):
                    return index - first, None
                slot.message = current
                result = at_once(call, current)
                if result is not None:
                    return index - first, result
                index += 1
                if index >= portion.count or portion.gone >> index & 1:
                    return index - first, None
                current = portion.messages[index]

        return serve


def _slot_of(lane: Lane, window: Window) -> LineSlot:
    """What a delivery there finds itself in: one object a line and acquisition."""
    slot = lane.slot
    if slot is None or slot.window is not window:
        slot = lane.slot = LineSlot(window, lane.desk.pull.group_name)
    return slot
