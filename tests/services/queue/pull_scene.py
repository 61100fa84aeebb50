"""A queue that is pulled by itself: a script for its broker, a pool that collects, a group that counts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from framework.core.budget import Budget
from framework.core.chunk import Chunk
from framework.core.offsets import OffsetTable
from framework.core.queue_flow import QueueFlow
from framework.core.window import FlowLimits, Window
from framework.hooks.listeners import NO_LISTENERS, Listeners
from framework.model.message import Message
from framework.model.pulled import Found, PullResult
from framework.model.queue import MessageQueue
from framework.services.pool.run import MessageCounts
from framework.services.queue.pacing import Paced, Pacing
from framework.services.queue.position import StartingPoint
from framework.services.queue.pull import PullLoop
from tests.services.parts import PLENTY, QUEUE, LoopClock, Plan, messages_from, start


class Script:
    """Answers pulls from a list; then it is a long poll that nothing ends."""

    def __init__(self, *answers: PullResult) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[int, int]] = []
        self.asked_at: list[float] = []
        self.abandoned = 0

    async def pull(self, offset: int, committable: Callable[[], int], *, alone: bool = False) -> PullResult:
        self.asked.append((offset, committable()))
        self.asked_at.append(asyncio.get_running_loop().time())
        await asyncio.sleep(0)
        if self.answers:
            return self.answers.pop(0)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.abandoned += 1
        raise AssertionError("nobody answers a long poll here")


class Taken:
    """A pool that only collects."""

    def __init__(self) -> None:
        self.chunks: list[Chunk] = []

    def offer(self, chunk: Chunk) -> None:
        self.chunks.append(chunk)

    def runs(self, window: Window) -> int:
        return sum(chunk.window is window for chunk in self.chunks)


class Group:
    def __init__(self) -> None:
        self.counts, self.offsets = MessageCounts(), OffsetTable()
        self.clock, self.plan = LoopClock(), Plan()
        self.ended = 0
        self.uncommon_ends: list[tuple[int, object]] = []
        self.not_a_member_calls = 0

    def left(self, queue: PullLoop, ended: int, *, is_late: bool = False) -> None:
        self.ended += ended

    def not_success(self, queue: PullLoop, chunk: Chunk, index: int, result: object, started: float) -> None:
        self.uncommon_ends.append((index, result))

    def not_a_member(self, queue: MessageQueue) -> None:
        self.not_a_member_calls += 1


class Fixture:
    """One owned queue whose group has 100 stored."""

    def __init__(
        self,
        *answers: PullResult,
        bounds: FlowLimits | None = None,
        starts: tuple[StartingPoint | Exception, ...] = (),
        pacing: Pacing | None = None,
        batch: int = 1,
        listeners: Listeners = NO_LISTENERS,
    ) -> None:
        self.script = Script(*answers)
        self.pool = Taken()
        self.group = Group()
        self.group.plan.listeners = listeners
        self.offsets = self.group.offsets
        self.budget = Budget(PLENTY)
        self._starts = list(starts) or [StartingPoint(100, "stored 100", 100)]
        self.flow = QueueFlow(QUEUE, self.budget, bounds or FlowLimits(), jitter=0.0)
        self.loop = PullLoop(
            self.flow, pulls=self.script, pool=self.pool, call=handle, not_success=self.group.not_success,
            find_start=self._find_start, group=self.group, parts=() if pacing is None else (Paced(pacing, batch),),
        )  # fmt: skip
        self.flow.run = self.loop
        self.task = start(self.loop.run())

    async def _find_start(self) -> StartingPoint:
        await asyncio.sleep(0)
        found = self._starts.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    def finish(self, chunk: Chunk) -> None:
        """All of it, by one worker, in order."""
        chunk.next = chunk.low = chunk.count
        self.loop.left(chunk, chunk.count)


async def handle(_: Message) -> None:
    return


def found(first: int, count: int, *, size: int = 100) -> Found:
    return Found(messages_from(first, count), size, first + count, 0, 10_000)
