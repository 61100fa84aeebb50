"""A batch starts with what is true when it starts, and not with what was true when it was due."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from framework.core.chunk import Chunk
from framework.model.message import Message
from framework.net.real_world import RealWorkers
from framework.net.task_tree import TaskTree
from framework.services.call.batch_calls import Batching
from framework.services.pool.batches import BatchPool
from framework.testing.sim.virtual_loop import POLICIES, Policy
from tests.services.parts import Books, LoopClock, play

BATCH, LINGER_MS = 4, 10


class Scene:
    """A pool of three for the batches of two queues; a handler of one second that keeps what it was given."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.now = self.most = 0
        self.books, self.others = Books(self._never), Books(self._never)
        self.tree = TaskTree()
        batching = Batching(self._handle, is_async=True, count=BATCH, linger_ms=LINGER_MS)
        self.pool = BatchPool("billing", 3, batching, clock=LoopClock(), workers=RealWorkers(), tree=self.tree)

    async def _never(self, message: Message) -> None:
        raise AssertionError("the pool has a call of its own")

    async def _handle(self, messages: Sequence[Message]) -> None:
        self.batches.append([message.queue_offset for message in messages])
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(1)
        self.now -= 1

    def offer(self, books: Books, count: int) -> Chunk:
        chunk = books.admit(count)
        self.pool.offer(chunk)
        return chunk

    @property
    def begun(self) -> list[int]:
        return sorted(offset for batch in self.batches for offset in batch)


every_policy = pytest.mark.parametrize("policy", POLICIES)


@every_policy
def test_a_batch_that_was_due_does_not_start_when_its_queue_is_left_first(policy: Policy) -> None:
    """Nobody would wait for it, and the next owner is given its messages too."""

    async def story() -> None:
        scene = Scene()
        scene.offer(scene.books, BATCH)  # due at once
        scene.books.window.stop_handing_out()
        assert 0 == scene.pool.runs(scene.books.window), "so the queue is handed over now"
        scene.pool.left()
        await asyncio.sleep(5)
        assert [] == scene.batches
        assert 0 == scene.books.window.settle()
        await scene.tree.close()

    play(story, policy=policy)


@every_policy
def test_of_a_batch_of_two_queues_the_one_that_was_left_is_not_started(policy: Policy) -> None:
    async def story() -> None:
        scene = Scene()
        scene.offer(scene.books, 2)
        await asyncio.sleep(LINGER_MS / 2000)
        scene.offer(scene.others, 2)
        scene.books.window.stop_handing_out()
        await asyncio.sleep(5)
        assert [[0, 1]] == scene.batches
        assert (0, 2) == (scene.books.window.settle(), scene.others.window.settle())
        await scene.tree.close()

    play(story, policy=policy)


@every_policy
def test_what_is_held_before_its_batch_starts_waits_with_the_others(policy: Policy) -> None:
    """The breaker of its topic opened in the same turn: one message at a time is tried, and none runs beside it."""

    async def story() -> None:
        scene = Scene()
        scene.offer(scene.books, 2 * BATCH + 1)
        held = scene.pool.take_back(scene.books.window)
        await asyncio.sleep(5)
        assert [] == scene.batches
        for chunk in held:
            scene.pool.offer(chunk)
        await asyncio.sleep(5)
        assert list(range(2 * BATCH + 1)) == scene.begun
        assert 2 * BATCH + 1 == scene.books.window.settle()
        await scene.tree.close()

    play(story, policy=policy)


@every_policy
def test_what_was_due_when_its_group_was_paused_is_held_with_what_came_behind_it(policy: Policy) -> None:
    async def story() -> None:
        scene = Scene()
        scene.offer(scene.books, BATCH)
        scene.pool.resize(0)
        await asyncio.sleep(0.5)
        held = scene.pool.take_back(scene.books.window)
        scene.pool.resize(3)
        await asyncio.sleep(5)
        assert ([], BATCH) == (scene.batches, sum(chunk.count for chunk in held))
        await scene.tree.close()

    play(story, policy=policy)


@every_policy
def test_as_many_batches_run_at_once_as_may_and_each_message_once(policy: Policy) -> None:
    async def story() -> None:
        scene = Scene()
        for count in (1, 2 * BATCH, 3, 5 * BATCH, 1):
            scene.offer(scene.books, count)
        await asyncio.sleep(0.5)
        assert 3 == scene.now
        await asyncio.sleep(10)
        assert 3 == scene.most
        assert list(range(7 * BATCH + 5)) == scene.begun
        assert [BATCH] * 8 + [1] == [len(batch) for batch in scene.batches], "the last one lingers no more"
        assert 7 * BATCH + 5 == scene.books.window.settle() == scene.books.ended
        scene.offer(scene.books, 1)
        await asyncio.sleep(LINGER_MS / 2000)
        assert 0 == scene.now, "one alone lingers"
        await asyncio.sleep(1.5)
        assert 7 * BATCH + 6 == scene.books.window.settle()
        assert 0 == len(scene.tree)
        await scene.tree.close()

    play(story, policy=policy)
