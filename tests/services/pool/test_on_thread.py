"""A worker that waits for a thread keeps its place until that has ended, and nothing comes of what ends late."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from framework.core.expiry import Slot
from framework.declare import consumer, publishes
from framework.hooks.builtin.expiry.drop import DropPolicy
from framework.model.message import Message
from framework.net.real_clock import RealClock
from framework.net.real_world import RealWorkers
from framework.net.task_tree import TaskTree
from framework.services.call.deliver import DeliveryHooks, call_for
from framework.services.call.publishing import Means
from framework.services.call.run_once import on_thread
from framework.services.pool.expiry import Expiry
from framework.services.pool.run import RUNNING
from framework.services.pool.tasks import WorkerPool
from tests.patience import PATIENCE_S, soon, until
from tests.services.parts import Books

LIMIT_MS = 100


@asynccontextmanager
async def pool_of(call: Callable[[Message], Any], size: int) -> AsyncIterator[tuple[WorkerPool, Books]]:
    """A pool of tasks whose handlers have a limit."""
    tree, books = TaskTree(), Books(call)

    def hire(slots: Iterable[Slot]) -> None:
        for slot in slots:
            tree.start(pool.work(slot), name="worker")

    pool = WorkerPool(size, RealClock(), hire)
    hire(pool.slots)
    tree.start(Expiry("billing", (pool,), RealClock(), DropPolicy(), LIMIT_MS).run(), name="expiry")
    try:
        yield pool, books
    finally:
        await tree.close()


@pytest.mark.parametrize("is_async", [False, True])
def test_nothing_is_published_of_what_ends_late(*, is_async: bool) -> None:
    """Its message was settled when its time was over. An awaited handler may have swallowed that it was cancelled."""

    async def story() -> None:
        let_go, opened, sent = threading.Event(), asyncio.Event(), list[bytes]()

        def bill(message: Message) -> str:
            if message.queue_offset < 2:
                let_go.wait(2 * PATIENCE_S)
            return str(message.queue_offset)

        async def bill_awaited(message: Message) -> str:
            while message.queue_offset < 2 and not opened.is_set():
                try:
                    await opened.wait()
                except asyncio.CancelledError:
                    continue
            return str(message.queue_offset)

        async def send(message: Message) -> None:
            sent.append(message.body)

        handler = consumer("orders", "billing")(publishes("receipts")(bill_awaited if is_async else bill))
        means = Means(send=send, workers=RealWorkers())
        call = call_for(handler.spec, DeliveryHooks(), RealClock(), means=means)
        async with pool_of(call, 1) as (pool, books):
            pool.offer(books.admit(3))
            await until(lambda: pool.missing == 1)
            assert [] == sent
            let_go.set()
            opened.set()
            await until(lambda: books.window.settle() == 3)
        assert ([b"2"], 1, 2) == (sent, books.ended, books.lates)

    asyncio.run(story())


def test_a_plugin_that_waits_no_longer_gives_no_place_away() -> None:
    """It hears of its limit when the thread has ended: until then nothing else may start there."""

    async def story() -> None:
        let_go, at_once = threading.Event(), list[int]()

        async def call(message: Message) -> object:
            async with asyncio.timeout(0.01):
                return await on_thread(workers, partial(hang, message))

        def hang(message: Message) -> None:
            at_once.append(message.queue_offset)
            let_go.wait(2 * PATIENCE_S)

        workers = RealWorkers()
        async with pool_of(call, 1) as (pool, books):
            pool.offer(books.admit(3))
            await until(lambda: pool.missing == 1)
            assert [0, 1] == at_once
            let_go.set()
            await until(lambda: books.window.settle() == 3)

    asyncio.run(story())


def test_a_cancelled_worker_hears_of_it_when_its_thread_has_ended() -> None:
    async def story() -> None:
        let_go, begun, tree, workers = threading.Event(), threading.Event(), TaskTree(), RealWorkers()

        def job() -> int:
            begun.set()
            let_go.wait(2 * PATIENCE_S)
            return 7

        task = tree.start(on_thread(workers, job), name="one")
        await until(begun.is_set)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait((task,), timeout=0.01)
        assert not task.done()
        let_go.set()
        await until(task.done)
        assert task.cancelled()

    asyncio.run(story())


def test_where_everything_ends_a_thread_that_hangs_is_left_to_itself() -> None:
    async def story() -> None:
        let_go, tree = threading.Event(), TaskTree()
        task = tree.start(on_thread(RealWorkers(), lambda: let_go.wait(2 * PATIENCE_S)), name="one")
        await asyncio.sleep(0)
        await soon(tree.close())
        assert task.cancelled()
        let_go.set()

    asyncio.run(story())


def test_what_the_job_raises_is_the_workers_and_its_place_is_named_meanwhile() -> None:
    async def story() -> None:
        slot = Slot()
        RUNNING.set(slot)

        def job() -> None:
            assert threading.get_ident() == slot.worker
            assert slot is RUNNING.get()
            raise KeyError("none")

        with pytest.raises(KeyError):
            await on_thread(RealWorkers(), job)
        assert asyncio.current_task() is slot.worker

    asyncio.run(story())
