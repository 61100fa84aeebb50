"""The loop that has progress written: each second, of each queue with a gap, side by side."""

from __future__ import annotations

import asyncio

import pytest

from framework.client.fences import Fence
from framework.core import limits
from framework.core.budget import Budget
from framework.core.queue_flow import QueueFlow
from framework.core.window import FlowLimits, Window
from framework.model.queue import MessageQueue
from framework.net.task_tree import TaskTree
from framework.net.wakeup import Wakeup
from framework.runtime.group.progressing import flush_each_second
from framework.services.queue.pull import PullLoop
from tests.services.parts import PLENTY, end, messages_from, play, start

Q1, Q2 = (MessageQueue("orders", "broker-a", number) for number in (1, 2))
SECOND = limits.FLUSH_MS / 1000


class Progress:
    """Notes each write when it has ended; `pause_s`: how long a write takes."""

    def __init__(self, pause_s: float = 0.0) -> None:
        self.fence, self.pause_s = Fence(), pause_s
        self.written: list[tuple[float, Window]] = []

    async def flush(self, window: Window, bell: Wakeup) -> None:
        await asyncio.sleep(self.pause_s)
        self.written.append((asyncio.get_running_loop().time(), window))


def owned(queue: MessageQueue, progress: Progress, *, finished: tuple[int, ...] = ()) -> PullLoop:
    """A queue that has pulled ten messages; these have ended."""
    flow = QueueFlow(queue, Budget(PLENTY), FlowLimits())
    flow.positioned(50)
    chunk = flow.window.admit(messages_from(50, 10), 50, 60, 100)
    assert chunk is not None
    for index in finished:
        chunk.finish(index)
    flow.window.settle()
    pull = object.__new__(PullLoop)
    pull.flow, pull.queue, pull.bell = flow, queue, Wakeup()
    pull.progress = progress  # type: ignore[assignment]  # as much of it as the loop takes
    return pull


async def seconds_of(count: int, *pulls: PullLoop) -> None:
    tree = TaskTree(lambda name, error: pytest.fail(f"{name}: {error!r}"))
    task = start(flush_each_second("billing", lambda: pulls, tree))
    await asyncio.sleep(count * SECOND + SECOND / 2)
    await end(task)


def test_a_queue_with_a_gap_is_written_each_second_and_one_without_is_not() -> None:
    async def story() -> None:
        with_gap, without = Progress(), Progress()
        gap = owned(Q1, with_gap, finished=(4, 5))
        empty = owned(Q2, without, finished=tuple(range(10)))
        await seconds_of(3, gap, empty)

        assert 3 == len(with_gap.written)
        assert {gap.flow.window} == {window for _, window in with_gap.written}
        assert [] == without.written

    play(story)


def test_an_owner_whose_commit_was_refused_is_flushed_though_it_has_no_gap() -> None:
    """Its flush takes the queue anew; until then each commit of it is refused."""

    async def story() -> None:
        refused = Progress()
        pull = owned(Q1, refused, finished=tuple(range(10)))
        refused.fence.is_refused = True
        await seconds_of(2, pull)
        assert 2 == len(refused.written)

    play(story)


def test_a_write_that_takes_long_holds_up_no_other_queue_of_its_round_and_is_not_begun_twice() -> None:
    async def story() -> None:
        slow, quick = Progress(pause_s=2.2 * SECOND), Progress()
        await seconds_of(5, owned(Q1, slow, finished=(4,)), owned(Q2, quick, finished=(4,)))

        (at_s, _), *later = slow.written
        assert quick.written[0][0] < at_s
        assert [] == later, "the second round began behind it, and is under way"
        assert 2 == len(quick.written)

    play(story)
