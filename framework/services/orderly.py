"""Orderly consumption: one message of a queue at a time, in the order of offsets, while the queue's lease is held.

A queue with something to do stands in line for a worker; its worker keeps it until nothing is left, a message must be
left alone for a while, or its turn is over. `size` workers, so that many queues at once. What an outcome means is
`core/retry.py`'s, who is first in a queue `core/line.py`'s, how long a lock is trusted `core/order_lease.py`'s.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from framework import marks
from framework.core import limits
from framework.core.backoff import Backoff
from framework.core.chunk import Chunk
from framework.core.line import Line
from framework.core.order_lease import OrderLease
from framework.core.queue_flow import QueueState
from framework.core.retry import SendBack, Settle, Stay, decide_in_order, outcome_of
from framework.core.window import Window
from framework.errors import FrameworkError
from framework.model.message import Message
from framework.model.outcome import Ack, Outcome
from framework.model.queue import MessageQueue
from framework.net.task_tree import TaskTree
from framework.ports import Chance, Clock, Workers
from framework.services.held import CAUSES
from framework.services.pull import GroupSide, PullLoop
from framework.services.work import Counts

log = structlog.get_logger()

PULSE_SECONDS = 0.5
# A process that was stopped for longer than this looks around before it starts anything: the word that a connection is
# lost, and its leases with it, may lie unread beside the timers that would start the next handler.
STALL_MS = 2_000
LOOK_AROUND_MS = 50
RUN_SECONDS = 0.02  # how long a thread goes on before its ends are brought home, so that offsets move


class Buries(Protocol):
    """The one call of the client that giving up needs."""

    async def dead_letter(self, message: Message, group: str) -> None: ...


class Tells(Protocol):
    """Who is told what became of deliveries that were not plain success."""

    def ended(self, event: str, group: str, message: Message, outcome: Outcome, elapsed_ms: float) -> None: ...
    def failed(self, group: str, message: Message, error: Exception) -> None: ...


@dataclass(eq=False, slots=True)
class Lane:
    """One queue at work: its line, its lease, and the pull loop whose chunks they are."""

    pull: PullLoop
    lease: OrderLease
    is_async: bool
    line: Line = field(default_factory=Line)
    backoff: Backoff = field(default_factory=lambda: Backoff(limits.FAILURE_DELAY_MS, limits.SUSPEND_MAX_MS))
    """For what is tried again without being an attempt."""
    is_running: bool = False
    is_ready: bool = False
    is_left: bool = False
    """The queue was given back while its handler still ran: the lane stays until that has ended."""
    timer: asyncio.TimerHandle | None = None
    started: float = 0.0
    """When the running handler began, seconds on the monotonic clock."""
    outcome: Outcome = field(default_factory=Ack)
    """What the first message came to at its last try, and how long that took."""
    elapsed_ms: float = 0.0


class Orderly:
    """All queues of one orderly group. It takes chunks as a crew does."""

    def __init__(
        self,
        group: str,
        size: int,
        *,
        max_retries: int,
        stuck_after_ms: int,
        brokers: Buries,
        reports: Tells,
        side: GroupSide,
        counts: Counts,
        clock: Clock,
        workers: Workers,
        chance: Chance,
        tree: TaskTree,
    ) -> None:
        self._group, self._size, self._max_retries, self._stuck_after_ms = group, size, max_retries, stuck_after_ms
        self._brokers, self._reports, self._side, self._counts = brokers, reports, side, counts
        self._clock, self._workers, self._chance, self._tree = clock, workers, chance, tree
        self._lanes: dict[MessageQueue, Lane] = {}
        self._ready: deque[Lane] = deque()
        self._working = 0
        self._watch: asyncio.TimerHandle | None = None
        self._pulse: asyncio.TimerHandle | None = None
        self._pulse_ms = 0
        """When the loop was last seen to run; kept while there are queues."""
        self._look_until_ms = 0

    # Queues come and go

    def take(self, pull: PullLoop, lease: OrderLease, *, is_async: bool) -> None:
        """Have the queue's chunks handled while the lease is held."""
        lane = self._lanes.get(pull.queue)
        if lane is None:
            self._lanes[pull.queue] = Lane(pull, lease, is_async)
        else:
            assert lane.is_left, f"{pull.queue} is taken already"
            # A handler of the last time still runs here: the new chunks wait for it.
            lane.pull, lane.lease, lane.is_async, lane.is_left = pull, lease, is_async, False
        if self._pulse is None:
            self._beat()

    def clear(self, queue: MessageQueue) -> None:
        """The lease is gone: whatever waits is forgotten, what runs may end and changes nothing."""
        lane = self._lanes[queue]
        lane.line.clear()
        if lane.timer is not None:
            lane.timer.cancel()
            lane.timer = None

    def leave(self, queue: MessageQueue) -> None:
        """The queue is given back."""
        self.clear(queue)
        lane = self._lanes[queue]
        if lane.is_running:
            lane.is_left = True
        else:
            del self._lanes[queue]

    # As the crew of its queues

    def offer(self, chunk: Chunk) -> None:
        lane = self._lanes[chunk.run.queue]
        lane.line.offer(chunk)
        if lane.timer is not None and lane.line.first is chunk:
            lane.timer.cancel()  # what it waited for is gone: the queue was moved
            lane.timer = None
        if lane.timer is None:
            self._stand_in_line(lane)

    def runs(self, window: Window) -> int:
        """How many handlers run on this window's queue: one at most, whichever window its message is of."""
        return sum(lane.is_running for lane in self._lanes.values() if lane.pull is window.run)

    def is_busy(self, queue: MessageQueue) -> bool:
        lane = self._lanes.get(queue)
        return lane is not None and lane.is_running

    def blocked_because(self, queue: MessageQueue) -> str | None:
        """Why the queue's first message is not past."""
        lane = self._lanes.get(queue)
        return None if lane is None else lane.line.blocked_because

    # Workers

    def _stand_in_line(self, lane: Lane) -> None:
        if lane.is_ready or lane.is_running:
            return  # whoever runs it looks again when he is done
        lane.is_ready = True
        self._ready.append(lane)
        if self._working < self._size:
            self._working += 1
            self._tree.start(self._work(), name=f"orderly {self._group}")

    async def _work(self) -> None:
        """One worker: for as long as there is work, and then gone."""
        try:
            while self._ready:
                lane = self._ready.popleft()
                lane.is_ready, lane.is_running = False, True
                try:
                    await self._turn(lane)
                except Exception:  # border: the loop's; one queue's surprise must not stop the others
                    log.exception("loop failed", loop=f"orderly {self._group}", queue=str(lane.pull.queue))
                    lane.line.stay(self._clock.monotonic_ms(), limits.FAILURE_DELAY_MS, "internal error", counts=False)
                finally:
                    lane.is_running = False
                    self._turn_over(lane)
                await asyncio.sleep(0)
        finally:
            self._working -= 1

    async def _turn(self, lane: Lane) -> None:
        """Run the queue's messages, one after the other."""
        over_ms = self._clock.monotonic_ms() + limits.TURN_MS
        chunk: Chunk | None = None
        while True:
            now_ms = self._clock.monotonic_ms()
            first = self._startable(lane, now_ms)
            if first is None or now_ms >= over_ms:
                return
            if now_ms < self._look_around(now_ms):
                marks.sometimes("a process that had been stopped looked around before it started anything")
                await asyncio.sleep(LOOK_AROUND_MS / 1000)
                continue
            if chunk is not None and chunk is not first:
                await asyncio.sleep(0)  # a turn of the loop a chunk, or handlers that never suspend would starve pulls
                chunk = None
                continue
            chunk = first
            if lane.line.copy is not None:
                await self._bury(lane, chunk, lane.line.copy)
                continue
            if lane.line.since_ms is None:
                lane.line.since_ms = now_ms
                self._watch_for_stuck(now_ms + self._stuck_after_ms)
            index, message, entered = chunk.next, lane.line.message, self._clock.monotonic()
            if lane.is_async:
                result = await self._awaited(lane, message)
                ended = int(result is None)
            else:
                ended, result = await self._workers.run(self._threaded(lane, chunk, index, message))
            chunk.spent += self._clock.monotonic() - entered
            self._came_home(lane, chunk, index, ended, result)

    def _startable(self, lane: Lane, now_ms: int) -> Chunk | None:
        """The chunk whose next message may start now. A lane that was left has an empty line."""
        if not lane.lease.holds(now_ms) or lane.line.wait_ms(now_ms):
            return None
        return lane.line.first

    async def _awaited(self, lane: Lane, message: Message) -> object:
        lane.started = self._clock.monotonic()
        try:
            result: object = await lane.pull.call(message)
        except Exception as error:  # noqa: BLE001 - border: the handler's
            return error
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return RuntimeError(f"the handler was cancelled from within: {error}")
        return result

    def _threaded(self, lane: Lane, chunk: Chunk, first: int, message: Message) -> Callable[[], tuple[int, object]]:
        """For a thread: messages in order for as long as each is plain success. It writes nothing that others write."""
        call, lease, clock = lane.pull.call, lane.lease, self._clock

        def serve() -> tuple[int, object]:
            until = clock.monotonic() + RUN_SECONDS
            index, current = first, message
            while True:
                started = lane.started = clock.monotonic()
                if started > until or chunk.window.is_draining or not lease.holds(int(started * 1000)):
                    return index - first, None
                try:
                    result: object = call(current)
                except Exception as error:  # noqa: BLE001 - border: the handler's
                    result = error
                except asyncio.CancelledError as error:  # nobody cancels a thread: it ran a loop of its own
                    result = RuntimeError(f"the handler was cancelled from within: {error}")
                if result is not None:
                    return index - first, result
                index += 1
                if index >= chunk.count:
                    return index - first, None
                current = chunk.messages[index]

        return serve

    def _came_home(self, lane: Lane, chunk: Chunk, index: int, ended: int, result: object) -> None:
        """So many messages from `index` on were plain success, and then `result` if that is not None."""
        now_ms, pull = self._clock.monotonic_ms(), lane.pull
        is_late = chunk.window.is_closed or not lane.lease.holds(now_ms)
        if is_late and marks.safeguard("a late result changes nothing"):
            marks.sometimes("a handler ended after its lease was lost")
            self._side.left(pull, ended + (result is not None), is_late=True)
            return
        if ended:
            self._advance(lane, chunk, ended)
            pull.left(chunk, ended)
        if result is not None:
            self._uncommon(lane, chunk, index + ended, result, now_ms)

    def _advance(self, lane: Lane, chunk: Chunk, count: int) -> None:
        if lane.line.is_reported:
            log.info("queue no longer stuck", group=self._group, queue=str(lane.pull.queue))
        lane.backoff.succeeded()
        if lane.line.first is chunk:
            lane.line.advance(count)
            return
        # The queue is being given back, and nothing of it is in line; what ran has ended all the same.
        for index in range(chunk.low, chunk.low + count):
            chunk.finish(index)

    # Not plain success

    def _uncommon(self, lane: Lane, chunk: Chunk, index: int, result: object, now_ms: int) -> None:
        message = self._as_tried(lane, chunk, index)
        if isinstance(result, CAUSES):
            # We lack the means to open it. That is no attempt, and nothing of the message's.
            pause_ms = lane.backoff.failed(self._chance.random())
            self._stay(lane, chunk, now_ms, pause_ms, str(result) or type(result).__name__, counts=False)
            return
        if isinstance(result, Exception):
            self._reports.failed(self._group, message, result)
        outcome = lane.outcome = outcome_of(result)
        elapsed_ms = lane.elapsed_ms = (self._clock.monotonic() - lane.started) * 1000
        decision = decide_in_order(outcome, message.attempt, self._max_retries)
        if not isinstance(decision, Settle):
            lane.pull.rates.failed(now_ms)
        match decision:
            case Settle(event=event):
                lane.pull.rates.handled(now_ms, 1, 0.0)
                self._counts.add(event)
                if event != "handled":  # plain success was told by the observer around the call
                    self._reports.ended(event, self._group, message, outcome, elapsed_ms)
                self._advance(lane, chunk, 1)
                lane.pull.left(chunk, 0)
            case Stay(pause_ms=pause_ms, reason=reason):
                self._counts.add("retry")
                self._reports.ended("retry", self._group, message, outcome, elapsed_ms)
                self._stay(lane, chunk, now_ms, pause_ms, reason, counts=True)
            case SendBack() as copy:
                # Before it is carried out: a copy that cannot be sent is sent again, and the handler is not run again.
                if lane.line.first is chunk:
                    lane.line.copy = copy
                    lane.line.last_error = copy.reason

    def _as_tried(self, lane: Lane, chunk: Chunk, index: int) -> Message:
        return lane.line.message if lane.line.first is chunk else chunk.messages[index]

    def _stay(self, lane: Lane, chunk: Chunk, now_ms: int, pause_ms: int, reason: str, *, counts: bool) -> None:
        if lane.line.first is not chunk:
            return  # the queue is being given back: its next owner is given the message
        if not lane.line.last_error:
            log.info(
                "queue blocked",
                group=self._group, queue=str(lane.pull.queue), offset=lane.line.message.queue_offset, reason=reason,
            )  # fmt: skip
        lane.line.stay(now_ms, pause_ms, reason, counts=counts)

    async def _bury(self, lane: Lane, chunk: Chunk, copy: SendBack) -> None:
        """Have a broker keep the first message among the dead letters; only then has it ended here."""
        message = lane.line.message
        try:
            await self._brokers.dead_letter(message, self._group)
        except FrameworkError as error:
            if lane.line.first is chunk:
                marks.sometimes("a dead letter of an orderly queue could not be sent")
                log.warning(
                    "dead letter not sent",
                    group=self._group, queue=str(lane.pull.queue), offset=message.queue_offset, reason=str(error),
                )  # fmt: skip
                pause_ms = lane.backoff.failed(self._chance.random())
                lane.line.stay(self._clock.monotonic_ms(), pause_ms, f"cannot send: {error}", counts=False)
            return
        if chunk.window.is_closed or not lane.lease.holds(self._clock.monotonic_ms()):
            self._side.left(lane.pull, 1, is_late=True)
            return
        self._counts.add(copy.event)
        self._advance(lane, chunk, 1)
        self._reports.ended(copy.event, self._group, message, lane.outcome, lane.elapsed_ms)
        lane.pull.left(chunk, 0)

    def _look_around(self, now_ms: int) -> int:
        """Until when nothing may start, because the process stood still until just now."""
        if now_ms - self._pulse_ms > STALL_MS:
            self._look_until_ms = now_ms + LOOK_AROUND_MS
        self._pulse_ms = now_ms
        return self._look_until_ms

    def _beat(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if self._pulse is not None:
            self._look_around(now_ms)
        self._pulse_ms = now_ms
        self._pulse = asyncio.get_running_loop().call_later(PULSE_SECONDS, self._beat) if self._lanes else None

    # After a turn

    def _turn_over(self, lane: Lane) -> None:
        """Nobody runs it any more: let the group know, or see to it that somebody runs it again."""
        if lane.is_left:
            self._lanes.pop(lane.pull.queue, None)
            return
        if lane.pull.flow.state is QueueState.RETIRING:
            lane.pull.quiet.ring()
        now_ms = self._clock.monotonic_ms()
        if lane.line.first is None or not lane.lease.holds(now_ms):
            return  # the next chunk, or the lease and then the next chunk, will bring it back
        wait_ms = lane.line.wait_ms(now_ms)
        if wait_ms:
            loop = asyncio.get_running_loop()
            lane.timer = loop.call_later((wait_ms + 1) / 1000, self._pause_over, lane)
        else:
            self._stand_in_line(lane)

    def _pause_over(self, lane: Lane) -> None:
        lane.timer = None
        self._stand_in_line(lane)

    # Queues that do not get on

    def _watch_for_stuck(self, at_ms: int) -> None:
        """One timer a group. It is there while anything runs, and looks when the oldest could be over the limit."""
        if self._watch is None:
            self._watch = asyncio.get_running_loop().call_at((at_ms + 1) / 1000, self._look)

    def _look(self) -> None:
        self._watch = None
        now_ms = self._clock.monotonic_ms()
        for lane in self._lanes.values():
            if lane.line.is_stuck(now_ms, self._stuck_after_ms) and not lane.line.is_reported:
                self._report(lane, now_ms)
        waiting = [
            lane.line.since_ms
            for lane in self._lanes.values()
            if lane.line.since_ms is not None and not lane.line.is_reported
        ]
        if waiting:
            self._watch_for_stuck(max(min(waiting) + self._stuck_after_ms, now_ms))

    def _report(self, lane: Lane, now_ms: int) -> None:
        line = lane.line
        if line.first is None or line.since_ms is None:
            return
        line.is_reported = True
        message = line.message
        log.error(
            "queue stuck",
            group=self._group, queue=str(lane.pull.queue), offset=message.queue_offset, message_id=message.message_id,
            attempts=line.attempt, blocked_ms=now_ms - line.since_ms,
            reason=line.last_error or "its handler still runs",
        )  # fmt: skip

    def __repr__(self) -> str:
        busy = sum(lane.is_running for lane in self._lanes.values())
        return f"<Orderly {self._group}: {busy} of {len(self._lanes)} queues at work, {len(self._ready)} wait>"
