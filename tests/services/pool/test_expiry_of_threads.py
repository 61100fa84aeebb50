"""Handlers on threads, and batches, that are over their limit."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from framework.core.expiry import held
from framework.hooks.builtin.expiry.send_back import SendBackPolicy
from framework.model.delivery import Delivery
from framework.model.message import Message
from framework.net.real_clock import RealClock
from framework.net.real_world import RealWorkers
from framework.net.task_tree import TaskTree
from framework.services.call.batch_calls import Batching
from framework.services.pool.batches import BatchPool
from framework.services.pool.expiry import Expiry
from framework.services.pool.run import RUNNING
from framework.services.pool.threads import ThreadPool
from tests.patience import PATIENCE_S, until, wait_until
from tests.services.parts import Books, end, start
from tests.services.pool.test_expiry import sleep_long

LIMIT_MS = 1_000
"""Much more than a quick handler has ever taken, on the busiest machine."""


class Loops:
    """A plain handler that is in an endless loop for some messages, until it is let go."""

    def __init__(self, *endless: int) -> None:
        self.endless = frozenset(endless)
        self.let_go = threading.Event()
        self.runs: Counter[int] = Counter()

    def __call__(self, message: Message) -> None:
        self.runs[message.queue_offset] += 1
        while message.queue_offset in self.endless and not self.let_go.is_set():
            time.sleep(0.01)


def test_as_many_threads_in_endless_loops_as_there_are_and_the_group_goes_on() -> None:
    async def story() -> None:
        loops = Loops(0, 5, 6, 30)
        books = Books(loops)
        pool = ThreadPool(4, RealClock(), RealWorkers())
        expiry = Expiry("billing", (pool,), RealClock(), SendBackPolicy(), LIMIT_MS)
        watching = start(expiry.run())
        for _ in range(4):
            pool.offer(books.admit(10))
        await until(lambda: books.window.settle() == 40)
        assert dict.fromkeys(range(40), 1) == loops.runs
        assert [0, 5, 6, 30] == sorted(offset for offset, _ in books.uncommon_ends)
        assert (4, 0, 0) == (len(pool.fenced), pool.missing, books.lates)
        assert 0 == pool.runs(books.window)
        loops.let_go.set()
        await until(lambda: not pool.fenced)
        assert (36, 4) == (books.ended, books.lates), "each counted once, wherever it was brought home"
        pool.offer(books.admit(5))
        await until(lambda: books.window.settle() == 45)
        assert 4 == len(pool.slots)
        await end(watching)

    asyncio.run(story())


def test_more_threads_that_hang_than_may_be_replaced_stand_still_and_come_back() -> None:
    async def story() -> None:
        loops = Loops(*range(6))
        books = Books(loops)
        pool = ThreadPool(2, RealClock(), RealWorkers())
        watching = start(Expiry("billing", (pool,), RealClock(), SendBackPolicy(), LIMIT_MS).run())
        pool.offer(books.admit(8))
        await until(lambda: len(pool.fenced) == 4)
        await asyncio.sleep(0.3)
        assert (4, 2, 4) == (len(pool.fenced), pool.missing, sum(loops.runs.values()))
        loops.let_go.set()
        await until(lambda: books.window.settle() == 8)
        await until(lambda: not pool.fenced)
        assert (0, 4) == (pool.missing, books.lates)
        await end(watching)

    asyncio.run(story())


def test_a_thread_may_ask_for_more_time_and_is_told_when_it_is_too_late() -> None:
    async def story() -> None:
        said: list[tuple[bool, bool]] = []
        is_over = threading.Event()

        def work(message: Message) -> None:
            delivery = Delivery("billing", message, 0.0, held(RUNNING.get(), RealClock().monotonic))
            if message.queue_offset == 0:
                assert delivery.extend("1h")
                assert is_over.wait(PATIENCE_S)
                time.sleep(LIMIT_MS / 1000)
            else:
                wait_until(lambda: delivery.is_expired)
                is_over.set()
            said.append((delivery.is_expired, delivery.extend("1s")))

        books = Books(work)
        pool = ThreadPool(2, RealClock(), RealWorkers())
        watching = start(Expiry("billing", (pool,), RealClock(), SendBackPolicy(), LIMIT_MS).run())
        pool.offer(books.admit(1))
        pool.offer(books.admit(1))
        await until(lambda: len(said) == 2)
        await until(lambda: books.ended + books.lates == 2)
        assert {(False, True), (True, False)} == set(said)
        assert (1, 1) == (books.ended, books.lates)
        await end(watching)

    asyncio.run(story())


# Batches


def batch_pool(call: Callable[[Any], Any], size: int, *, is_async: bool, tree: TaskTree, workers: Any) -> BatchPool:
    batching = Batching(call, is_async, 4, 10)
    return BatchPool("billing", size, batching, clock=RealClock(), workers=workers, tree=tree)


def test_a_batch_that_hangs_is_given_up_message_by_message_and_others_go_on() -> None:
    async def story(*, is_async: bool) -> tuple[int, int, int, int]:
        let_go, tree = threading.Event(), TaskTree()

        def called(messages: list[Message]) -> list[object]:
            while messages[0].queue_offset == 0 and not let_go.is_set():
                time.sleep(0.01)
            return [None] * len(messages)

        async def awaited(messages: list[Message]) -> list[object]:
            await asyncio.sleep(3_600 if messages[0].queue_offset == 0 else 0)
            return [None] * len(messages)

        books = Books(sleep_long)  # never called: the pool has a call of its own
        pool = batch_pool(awaited if is_async else called, 1, is_async=is_async, tree=tree, workers=RealWorkers())
        watching = start(Expiry("billing", (pool,), RealClock(), SendBackPolicy(), LIMIT_MS).run())
        pool.offer(books.admit(10))
        await until(lambda: books.window.settle() == 10)
        assert 0 == pool.runs(books.window)
        hanging = len(pool.fenced)
        let_go.set()
        await until(lambda: not pool.fenced)
        assert 0 == pool.missing
        await end(watching)
        await tree.close()
        return hanging, len(books.uncommon_ends), books.ended, books.lates

    assert (1, 4, 6, 4) == asyncio.run(story(is_async=False))
    assert (0, 4, 6, 0) == asyncio.run(story(is_async=True))


def test_a_batch_that_was_due_does_not_start_in_a_pool_that_was_paused_since() -> None:
    """It was due in the same turn of the loop. As many run at once afterwards as may, and no message is left out."""

    async def story() -> None:
        begun, at_work, tree = list[int](), 0, TaskTree()
        most = 0

        async def called(messages: list[Message]) -> list[object]:
            nonlocal at_work, most
            at_work += 1
            most = max(most, at_work)
            begun.extend(message.queue_offset for message in messages)
            await asyncio.sleep(0.01)
            at_work -= 1
            return [None] * len(messages)

        books = Books(sleep_long)  # never called: the pool has a call of its own
        pool = batch_pool(called, 3, is_async=True, tree=tree, workers=RealWorkers())
        pool.offer(books.admit(40))
        pool.resize(0)
        await asyncio.sleep(0.05)
        assert [] == begun
        pool.resize(3)
        await until(lambda: books.window.settle() == 40)
        assert list(range(40)) == sorted(begun)
        assert 3 == most
        await tree.close()

    asyncio.run(story())
