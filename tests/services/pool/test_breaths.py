"""Handlers that never suspend leave the loop to others now and then, and what comes meanwhile finds a worker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from framework.model.message import Message
from framework.net.real_world import RealWorkers
from framework.net.task_tree import TaskTree
from framework.services.call.batch_calls import Batching
from framework.services.pool.batches import BatchPool
from framework.services.pool.run import BREATH_S
from framework.services.pool.tasks import WorkerPool
from framework.testing.sim.virtual_loop import POLICIES, Policy
from tests.services.parts import Books, LoopClock, play

CHUNK = 32
Handler = Callable[[Message], Awaitable[None]]


class BusyClock(LoopClock):
    """Time goes by where a handler takes some, without a turn of the loop."""

    taken_s = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.taken_s


class Scene:
    """A pool of two, of tasks or of batches, whose handler does with each message what it is told."""

    def __init__(self, kind: str, handler: Handler) -> None:
        self.clock, self.tree, self.handler = BusyClock(), TaskTree(), handler
        self.books = Books(self.one)
        self.seen: list[int] = []
        self.workers: set[object] = set()
        if kind == "tasks":
            self.pool: WorkerPool | BatchPool = WorkerPool(2, self.clock)
            for slot in self.pool.slots:
                self.tree.start(self.pool.work(slot), name="worker")
        else:
            batching = Batching(self.batch, is_async=True, count=CHUNK, linger_ms=0)
            self.pool = BatchPool("billing", 2, batching, clock=self.clock, workers=RealWorkers(), tree=self.tree)

    async def one(self, message: Message) -> None:
        self.workers.add(asyncio.current_task())
        self.seen.append(message.queue_offset)
        await self.handler(message)

    async def batch(self, messages: Sequence[Message]) -> None:
        for message in messages:
            await self.one(message)

    def offer(self, chunks: int, count: int = CHUNK) -> None:
        for _ in range(chunks):
            self.pool.offer(self.books.admit(count))


both = pytest.mark.parametrize("kind", ["tasks", "batches"])


@both
@pytest.mark.parametrize("message_s", [1e-6, 1e-5, 1e-4, 1e-3])
def test_the_loop_has_its_turn_after_a_while_or_after_a_chunk_that_takes_longer(kind: str, message_s: float) -> None:
    """A pull or a heartbeat does not wait for all there is."""
    chunks = 1_000 if message_s < 1e-4 else 20

    async def story() -> list[float]:
        async def handle(_: Message) -> None:
            scene.clock.taken_s += message_s

        scene = Scene(kind, handle)
        scene.offer(chunks)
        turns_s: list[float] = []
        while len(scene.seen) < chunks * CHUNK:
            before = scene.clock.taken_s
            await asyncio.sleep(0)
            turns_s.append(scene.clock.taken_s - before)
        await scene.tree.close()
        return turns_s

    turns_s = play(story, policy="fifo")
    assert max(turns_s) <= BREATH_S + 2 * CHUNK * message_s
    assert len(turns_s) >= 10


@both
@pytest.mark.parametrize("policy", POLICIES)
def test_chunks_that_come_together_have_one_worker_while_handlers_never_suspend(kind: str, policy: Policy) -> None:
    async def story() -> int:
        async def handle(_: Message) -> None: ...

        scene = Scene(kind, handle)
        await asyncio.sleep(1)
        scene.offer(7)
        await asyncio.sleep(1)
        assert list(range(7 * CHUNK)) == scene.seen
        await scene.tree.close()
        return len(scene.workers)

    assert 1 == play(story, policy=policy)


@both
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("turns", range(6))
def test_what_comes_at_a_breath_is_not_kept_waiting_by_a_handler_that_hangs(
    kind: str, policy: Policy, turns: int
) -> None:
    """The pool has two workers, of which one hangs: in the turn in which it comes, or soon before or after."""

    async def story() -> None:
        hung: list[int] = []

        async def handle(message: Message) -> None:
            scene.clock.taken_s += 1e-4
            if has_come and not hung:
                hung.append(message.queue_offset)
                await asyncio.sleep(3_600)

        has_come = False
        scene = Scene(kind, handle)
        scene.offer(20)
        for _ in range(turns):
            await asyncio.sleep(0)
        has_come = True
        scene.offer(1, 1 if kind == "tasks" else CHUNK)
        await asyncio.sleep(1)
        behind = CHUNK if kind == "batches" else 1  # the batch of the one that hangs does not go on
        assert len(scene.seen) >= scene.books.window.end - behind
        assert 1 == len(hung)
        await scene.tree.close()

    play(story, policy=policy)
