"""How the handler of an orderly line is called: awaited, or in a thread that goes on while every result is success."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from framework.core.expiry import LineSlot
from framework.core.line import Place
from framework.core.portion import Portion
from framework.core.window import Window
from framework.model.message import Message
from framework.ports import Clock, Workers
from framework.services.call.batch_calls import Batching, results_of
from framework.services.call.run_once import at_once, awaited
from framework.services.crew.run import RUNNING, run_in
from framework.services.orderly.desk import Lane

RUN_SECONDS = 0.02  # how long a thread goes on before its ends are brought home, so that offsets move


class OrderCalls:
    """It decides nothing: so many messages were plain success, and then there was a result or there was none."""

    def __init__(self, clock: Clock, workers: Workers) -> None:
        self._clock, self._workers = clock, workers

    async def run(self, lane: Lane, portion: Portion, message: Message) -> tuple[int, object]:
        """From the portion's next message on, which is `message` as it is tried now."""
        entered = self._clock.monotonic()
        if lane.desk.how.is_async:
            slot = _slot_of(lane, portion.window)
            RUNNING.set(slot)
            slot.message = message
            lane.started = self._clock.monotonic()
            result = await awaited(lane.desk.pull.call, message)
            slot.message = None
            ended = int(result is None)
        else:
            slot = _slot_of(lane, portion.window)
            ended, result = await self._workers.run(partial(run_in, slot, self._threaded(lane, portion, message, slot)))
        portion.chunk.spent += self._clock.monotonic() - entered
        return ended, result

    async def run_batch(self, lane: Lane, places: Sequence[Place], batching: Batching) -> list[object]:
        """One result per message, as the batch's call makes them of the handler's answer; none if it did not start."""
        entered = lane.started = self._clock.monotonic()
        messages = [lane.line.as_tried(portion, index) for portion, index in places]
        slot = _slot_of(lane, places[0][0].window)
        slot.message, slot.batch = None, len(messages)
        RUNNING.set(slot)
        window, lease, clock = slot.window, lane.desk.lease, self._clock

        def started(call: Callable[[], list[object]]) -> list[object]:
            """In a thread, which may begin late: when the queue has been moved, or its lease is over."""
            is_over = window.is_closed or not lease.holds(int(clock.monotonic() * 1000))
            return [] if is_over else run_in(slot, call)

        results = await results_of(batching, messages, lambda call: self._workers.run(partial(started, call)))
        slot.batch = 0
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
