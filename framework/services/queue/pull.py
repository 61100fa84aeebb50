"""PullLoop: one owned queue at work. It asks its flow what to do, does it, and hands chunks to the pool.

It decides nothing: what an answer means is `core/queue_flow.py`'s, what may be committed is `core/window.py`'s.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import structlog

from framework import marks
from framework.core import limits
from framework.core.backoff import Trouble
from framework.core.breaker import Breaker
from framework.core.chunk import Chunk
from framework.core.offsets import OffsetTable
from framework.core.queue_flow import Position, Pull, QueueFlow, Wait
from framework.core.statistics import Rates
from framework.core.window import FlowLimits, Window
from framework.errors import FrameworkError, is_said
from framework.hooks.listeners import Listeners
from framework.model.message import Message
from framework.model.pulled import ChunkSummary, Damaged, Failed, Found, NothingNew, Popped, PullResult
from framework.model.queue import MessageQueue
from framework.net.wakeup import Wakeup
from framework.ports import Clock
from framework.services.offsets.nothing_kept import NOTHING_KEPT, NothingKept
from framework.services.offsets.progress import QueueProgress
from framework.services.pool.run import MessageCounts
from framework.services.queue.intake import Further, Part, show_example
from framework.services.queue.popped import PopQueue
from framework.services.queue.position import StartingPoint, doubt_settled, reached_before
from framework.wire.codes import ResponseCode

log = structlog.get_logger()

# The broker does not know our subscription (24) or its condition (27), or knows an older one (25, 28): the next
# heartbeat mends all four.
NOT_A_MEMBER = (
    ResponseCode.SUBSCRIPTION_NOT_EXIST,
    ResponseCode.SUBSCRIPTION_NOT_LATEST,
    ResponseCode.FILTER_DATA_NOT_EXIST,
    ResponseCode.FILTER_DATA_NOT_LATEST,
)
_STORED = (Found, NothingNew)
"""Answers of a broker that has stored the offset that rode on the pull."""


class QueuePulls(Protocol):
    """One queue's pulls, as the client makes them. An answer is always a value; only cancellation is raised."""

    def pull(self, offset: int, committable: Callable[[], int], *, alone: bool = False) -> Awaitable[PullResult]: ...


class TakesChunks(Protocol):
    """A pool, of tasks or of threads."""

    def offer(self, chunk: Chunk) -> None: ...
    def runs(self, window: Window) -> int: ...


class PlanSide(Protocol):
    """What an owned queue needs of its group's plan."""

    @property
    def name(self) -> str: ...
    @property
    def listeners(self) -> Listeners: ...
    def judged(self, message: Message, result: object) -> object: ...


class GroupSide(Protocol):
    """What an owned queue needs of its group."""

    counts: MessageCounts
    offsets: OffsetTable

    @property
    def clock(self) -> Clock: ...
    @property
    def plan(self) -> PlanSide: ...
    def left(self, queue: PullLoop, ended: int, *, is_late: bool = False) -> None: ...
    def not_a_member(self, queue: MessageQueue) -> None: ...


NotSuccess = Callable[["PullLoop", Chunk, int, object, float], None]
"""Decides about a message that did not plainly succeed: its queue, chunk, index, result, and when it had begun."""


class PullLoop:
    """One owned queue: its flow, its bell and its loop. Chunks carry it as their `run`."""

    def __init__(
        self,
        flow: QueueFlow,
        *,
        pulls: QueuePulls,
        pool: TakesChunks,
        call: Callable[[Message], Any],
        not_success: NotSuccess,
        find_start: Callable[[], Awaitable[StartingPoint]],
        group: GroupSide,
        rates: Rates | None = None,
        parts: Sequence[Part] = (),
        progress: QueueProgress | NothingKept = NOTHING_KEPT,
        popped: PopQueue | None = None,
        hold_back: Callable[[PullLoop, Chunk], None] | None = None,
        breaker: Breaker | None = None,
        is_retried: bool = False,
    ) -> None:
        """`hold_back`: takes chunks while the handlers of their topic fail all. `is_retried`: of the retry topic, where
        messages of every topic of the group are.
        """
        self.flow = flow
        self._hold_back = hold_back
        self.breaker = breaker or Breaker(flow.queue.topic, 0)
        """Its topic's: whether the handlers fail all."""
        self.is_retried = is_retried
        self.popped = popped
        """Of a queue whose messages are popped: holds and acknowledges them."""
        self.queue = flow.queue
        self.call = call
        self.pool = pool
        self.not_success = partial(not_success, self)
        self.judged = group.plan.judged
        """What a result that is not plain success comes to, before it is decided: a body that could not be read."""
        self.bell = Wakeup()
        """Rung when there may be room again."""
        self.quiet = Wakeup()
        """Rung when something ends while the queue is being retired."""
        self._pulls = pulls
        self._find_start = find_start
        self._offsets = group.offsets
        self._group = group
        self.group_name = group.plan.name
        self._where = {"group": self.group_name, "queue": str(self.queue)}
        """For the log."""
        self._clock = group.clock
        self._trouble: str | None = None
        """The failing state that was logged; None while all is well."""
        self._waits_for_heartbeat = False
        self.progress = progress
        """Keeps what has ended above a gap."""
        self._parts = parts
        self._intake: Further = self._taken_in
        for part in (progress, *reversed(parts)):
            self._intake = partial(part.take, further=self._intake)
        self._rode = 0
        """The offset that rode on the pull under way; 0 where none did."""
        self.lost = 0
        """Handled messages that come again because their lease was lost before their offset was confirmed."""
        self._listeners, self._held_for = group.plan.listeners, ""
        now = self._clock.monotonic()
        self.rates = rates or Rates(int(now * 1000))
        """The topic's; where nobody shares them, the queue's own."""
        self.pulled_at = self.left_at = now
        """When it was last asked for messages, and when a worker last left some (seconds, monotonic)."""

    async def run(self) -> None:
        """Until the flow says to leave, or the task is cancelled because the queue was taken away."""
        flow, now_ms = self.flow, self._clock.monotonic_ms
        self.bell = Wakeup()  # a loop that was cancelled a moment ago may still have to wake from the old one
        while True:
            step = flow.next_step(now_ms())
            if type(step) is Pull:
                if self.progress.is_moved(flow.window):
                    if not await self.progress.start_over(flow.window):
                        await asyncio.sleep(limits.FLUSH_MS / 1000)
                    continue
                await self._pull(step)
            elif type(step) is Wait:
                if self._listeners.queue_held is not None:
                    self._tell_held(flow.held_because or "")
                await self.bell.wait(None if step.until_ms is None else (step.until_ms + 1) / 1000)
            elif type(step) is Position:
                await self._position()
            else:
                return

    def hold(self, reason: str) -> None:
        """Stop pulling until `flow.hold_reason` is cleared. Listeners hear of it at once: a pull may be under way."""
        self.flow.hold_reason = reason
        self._tell_held(reason)

    def _tell_held(self, reason: str) -> None:
        if reason and reason != self._held_for and self._listeners.queue_held is not None:
            self._listeners.queue_held(self.group_name, self.queue, reason)
        self._held_for = reason

    async def _pull(self, pull: Pull) -> None:
        asked = self.pulled_at = self._clock.monotonic()
        self._held_for = ""
        self._rode, window = 0, self.flow.window
        result = await self._pulls.pull(pull.offset, self._riding, alone=pull.alone)
        if self._rode and type(result) in _STORED:
            window.confirmed(self._rode)
        if isinstance(result, Found | Popped):
            now = self._clock.monotonic()
            self.rates.pulled(int(now * 1000), len(result.messages), (now - asked) * 1000)
        if self.popped is not None and isinstance(result, Popped):
            await self.popped.paced(result.messages)
        elif type(result) is Found:
            is_plain = self.progress.passing is None
            for part in self._parts:
                is_plain = is_plain and part.is_open
            if not is_plain:
                await self._intake(result, pull.offset)
                return
        self._take_in(result, pull.offset)

    async def _taken_in(self, found: Found, begin: int) -> bool:
        return self._take_in(found, begin)

    def _take_in(self, result: PullResult, begin: int) -> bool:
        """The end of an answer's way. Whether the queue goes on behind it."""
        flow = self.flow
        window = flow.window
        chunk = flow.pulled(result, self._clock.monotonic_ms())
        if chunk is not None:
            if flow.is_tripped and self._hold_back is not None:
                self._hold_back(self, chunk)
            else:
                self.pool.offer(chunk)
        elif type(result) is Damaged:
            self._damaged(result, begin)
        elif type(result) is Failed:
            self._offsets.mark_unsent(self.queue)
            if result.code in NOT_A_MEMBER:
                # Refused again after its heartbeat it stands back, as after any failure.
                self._waits_for_heartbeat = self._trouble is None
                self._group.not_a_member(self.queue)
        elif flow.window is not window:
            # A broker that has lost its log names 0, which must not wipe out what it has stored.
            self._begin(flow.next_offset, stored=None if flow.next_offset else 0)
            if self._trouble != "pulls not advancing":  # else it is moved to and fro, which is said once
                log.warning("queue moved", **self._where, offset=begin, to=flow.next_offset)
        if flow.health.failure is not None or self._trouble is not None:
            self._name_failure()
        return type(result) is Found and flow.next_offset == result.next_offset

    def _damaged(self, result: Damaged, offset: int) -> None:
        """Nothing of the pull was handed out. The flow has put it off, or left the record behind."""
        self._offsets.mark_unsent(self.queue)
        to = self.flow.next_offset
        if to == offset:
            return
        self._group.counts.damaged += 1
        log.error(
            "damaged record skipped",
            **self._where, topic=self.queue.topic, broker=self.queue.broker,
            offset=offset, to=to, reason=result.reason,
        )  # fmt: skip

    def introduced(self) -> None:
        """The broker is there and has heard who we are: a pull that failed for want of that is made again at once."""
        if self._waits_for_heartbeat or self._trouble == "broker away":
            self._waits_for_heartbeat = False
            self.flow.health.until_ms = 0
            self.bell.ring()

    def _riding(self) -> int:
        """The offset that rides on a pull, asked for when its frame is written; a pull that fails takes it back.

        Nothing rides before there is progress: what was stored when we began may have been raised since, by a commit
        that was still on its way.
        """
        offset = self._offsets.unconfirmed(self.queue)
        if not offset:
            return 0  # also where 0 is to be stored: on a pull, 0 means nothing
        if self.progress.fence.epoch is not None:
            return 0  # a pull carries no epoch
        self._offsets.mark_sent(self.queue, offset)
        self._rode = offset
        return offset

    async def _position(self) -> None:
        trouble: Trouble = "pull failed"
        try:
            await self.progress.handed_over()
            start = reached_before(await self._find_start(), self.flow.reached)
            start = doubt_settled(start, self.flow.doubted, is_back=self.flow.is_sent_back)
            if self.flow.stays_after_doubt(start.stored):
                log.info("position kept", **self._where, offset=self.flow.next_offset, reason=start.reason)
                return
            trouble = "queue not begun"
            known = start.offset if start.offset == self.flow.reached else start.stored
            await marks.stretched("a queue is about to begin")
            if not await self.progress.begin(start.offset, known):
                return
        except FrameworkError as error:
            trouble = "broker away" if is_said(error) else trouble
            self.flow.position_refused(str(error), self._clock.monotonic_ms(), trouble)
            self._name_failure()
            return
        self.flow.positioned(start.offset, start.end)
        self.progress.begun(self.flow.window)
        self._begin(start.offset, stored=start.stored)
        self.lost = 0
        self._name_failure()
        log.info("queue positioned", **self._where, offset=start.offset, reason=start.reason)

    def _name_failure(self) -> None:
        """Log on entering and on leaving the failing state, not while in it."""
        flow = self.flow
        trouble = None if flow.failure is None else flow.health.trouble
        if trouble == self._trouble:
            return
        if trouble is None:
            # Of a queue that has begun at last it is said where it begins.
            told = log.debug if self._trouble in {"broker away", "queue not begun"} else log.info
            told("pull recovered", **self._where)
        elif trouble == "broker away":
            log.debug("pull failed", **self._where, reason=flow.failure)
        elif trouble == "record damaged":
            log.error(
                trouble,
                **self._where, topic=self.queue.topic, broker=self.queue.broker,
                offset=flow.next_offset, reason=flow.failure, then="skip" if flow.damage.skips else "hold",
            )  # fmt: skip
        else:
            log.warning(trouble, **self._where, reason=flow.failure)
        self._trouble = trouble

    def reset(self, offset: int) -> None:
        """Drop what was pulled and go on from `offset`. The caller ends `run` at once and starts it again."""
        self.flow.reset(offset)
        self._begin(offset, stored=None)
        self._name_failure()

    def _begin(self, offset: int, *, stored: int | None) -> None:
        self._offsets.begin(self.queue, offset, stored=stored)
        self.progress.fence.begin()

    # As the run of its chunks

    def left(self, chunk: Chunk, ended: int) -> None:
        """A worker leaves a chunk. Once a chunk, not once a message."""
        window: Window = chunk.window
        if self.popped is not None:
            self.popped.left(chunk)
        if window.is_closed:
            self._group.left(self, ended, is_late=True)
            return
        if (after_chunk := self._listeners.after_chunk) is not None:
            self._summarise(after_chunk, chunk, ended)
        if chunk.low >= chunk.count:
            committable = window.settle()
            if chunk.end > committable:
                self._release(chunk)
            if window is self.flow.window:
                self._offsets.advance(self.queue, committable)
            if self.flow.held_because is not None:
                self.bell.ring()
        elif window.is_popped and self.flow.held_because is not None:
            self.bell.ring()
        now = self.left_at = self._clock.monotonic()
        timed = self.rates.handled(int(now * 1000), ended, chunk.spent * 1000)
        if timed is not None and self.rates.times is not None:
            show_example(self.rates.times, *timed, chunk, self._clock)
        chunk.spent = 0.0
        self._group.left(self, ended)

    def _release(self, chunk: Chunk) -> None:
        """It has ended behind one that has not. Of popped ones no progress is kept, which would fold them."""
        chunk.window.release(chunk)
        if chunk.window.is_popped:
            chunk.window.fold()

    def give_back(self, chunks: Sequence[Chunk]) -> None:
        """Popped messages that nobody has started, and nobody will here: other members get them."""
        assert self.popped is not None, f"{self.queue} is not popped"
        for chunk in chunks:
            self.popped.give_back(chunk.messages)
            chunk.finish_span(0, chunk.count)
            if chunk.end > chunk.window.settle():
                self._release(chunk)

    def _summarise(self, after_chunk: Callable[[ChunkSummary], object], chunk: Chunk, ended: int) -> None:
        """Before anything is let go of: a chunk that ended before this is behind what may be committed, or empty."""
        is_over = chunk.low >= chunk.count and chunk.end > chunk.window.committable
        size = chunk.size if is_over else 0
        if ended or size or chunk.spent:
            after_chunk(ChunkSummary(self.group_name, self.queue, ended, chunk.spent * 1000, size))

    def late(self, chunk: Chunk, count: int) -> None:
        self._group.left(self, count, is_late=True)

    @property
    def waits_for_rate(self) -> bool:
        """What was pulled waits until the group's `rate` lets it go."""
        is_paced = self.popped is not None and self.popped.is_paced
        return is_paced or any(part.is_waiting for part in self._parts)

    @property
    def running(self) -> int:
        """Handlers that run on this queue's messages now."""
        return self.pool.runs(self.flow.window)

    def __repr__(self) -> str:
        return f"<PullLoop {self.flow}>"


def divide_bounds(owned: Mapping[MessageQueue, PullLoop], whole: FlowLimits) -> None:
    """A topic's bounds among its owned queues, whose number may have changed; who waited for room looks again."""
    counts = Counter(queue.topic for queue in owned)
    shares = {topic: whole.of_one(queues) for topic, queues in counts.items()}
    for queue, pull in owned.items():
        pull.flow.bounds = shares[queue.topic]
        if pull.flow.held_because is not None:
            pull.bell.ring()
