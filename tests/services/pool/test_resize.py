"""Pools that grow and shrink while they run: the new number holds at once, and no message is lost or handled twice."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import Counter
from collections.abc import Callable

import pytest

from framework.core.chunk import Chunk
from framework.model.message import Message
from framework.net.real_clock import RealClock
from framework.net.real_world import RealWorkers
from framework.net.task_tree import TaskTree
from framework.services.pool.tasks import WorkerPool
from framework.services.pool.threads import ThreadPool
from framework.testing.sim.virtual_loop import POLICIES, Policy
from tests.patience import PATIENCE_S, until
from tests.services.parts import Books, LoopClock, play, turns

every_order = pytest.mark.parametrize(
    ("seed", "policy"), [(seed, policy) for policy in POLICIES for seed in range(1 if policy == "fifo" else 4)]
)


class Crowd:
    """A pool with its tasks, and a handler of one second that counts."""

    def __init__(self, size: int, seconds: float = 1.0) -> None:
        self.seen: Counter[int] = Counter()
        self.now = self.most = 0
        self.asked = size
        self.beside: list[int] = []
        """Messages that were started while as many as asked were at work."""
        self.seconds: Callable[[int], float] = lambda offset: seconds
        self.books = Books(self._handle)
        self.pool = WorkerPool(size, LoopClock())
        self.tree = TaskTree()
        for slot in self.pool.slots:
            self.tree.start(self.pool.work(slot), name="worker")

    async def _handle(self, message: Message) -> None:
        self.seen[message.queue_offset] += 1
        self.now += 1
        self.most = max(self.most, self.now)
        if self.now > self.asked:
            self.beside.append(message.queue_offset)
        await asyncio.sleep(self.seconds(message.queue_offset))
        self.now -= 1

    def offer(self, count: int) -> Chunk:
        chunk = self.books.admit(count)
        self.pool.offer(chunk)
        return chunk

    def resize(self, size: int) -> None:
        self.asked = size
        for slot in self.pool.resize(size):
            self.tree.start(self.pool.work(slot), name="worker")


@every_order
def test_four_become_twenty_and_then_two_within_a_handlers_time(seed: int, policy: Policy) -> None:
    async def story() -> None:
        crowd = Crowd(4)
        for _ in range(10):
            crowd.offer(32)
        await asyncio.sleep(0.5)
        assert 4 == crowd.now
        crowd.resize(20)
        await asyncio.sleep(0.1)
        assert 20 == crowd.now
        crowd.resize(2)
        await asyncio.sleep(1.1)
        assert (2, 2) == (crowd.now, len(crowd.pool.slots)), "who is too many has ended one message, not his chunk"
        crowd.most = 0
        await asyncio.sleep(5)
        assert 2 == crowd.most
        crowd.resize(20)
        await asyncio.sleep(60)
        assert dict.fromkeys(range(320), 1) == crowd.seen
        assert 320 == crowd.books.window.settle() == crowd.books.ended
        await crowd.tree.close()

    play(story, seed=seed, policy=policy)


@every_order
def test_whatever_sizes_follow_each_other_each_message_runs_once(seed: int, policy: Policy) -> None:
    async def story() -> None:
        dice = random.Random(seed)
        crowd, sent, bound = Crowd(3), 0, 3
        crowd.seconds = lambda offset: dice.choice((0, 0.05, 0.3, 2))
        for _ in range(60):
            sent += (count := dice.choice((1, 1, 2, 5, 32)))
            crowd.offer(count)
            size = dice.randint(1, 9)
            bound = max(crowd.now, size)  # running ones end; whoever starts keeps to the new number
            crowd.most = crowd.now
            crowd.resize(size)
            await asyncio.sleep(dice.choice((0, 0.1, 0.29, 0.9)))
            assert crowd.most <= bound
        await asyncio.sleep(600)
        assert dict.fromkeys(range(sent), 1) == crowd.seen
        assert sent == crowd.books.window.settle()
        assert [] == crowd.beside
        assert len(crowd.tree) == len(crowd.pool.slots) == size
        await crowd.tree.close()

    play(story, seed=seed, policy=policy)


@pytest.mark.parametrize("slow", range(3))
def test_nothing_starts_beside_a_long_handler_when_one_is_asked_for(slow: int) -> None:
    """Whoever ends first goes: the one at the long message is the one that is asked for, whichever place it has."""

    async def story() -> None:
        crowd = Crowd(3)
        crowd.seconds = lambda offset: 30 if offset == slow else 1
        crowd.offer(6)
        await asyncio.sleep(0.5)
        crowd.resize(1)
        await asyncio.sleep(20)
        assert (1, 1, 2) == (crowd.now, len(crowd.pool.slots), crowd.books.ended)
        await asyncio.sleep(15)
        assert ([], 6) == (crowd.beside, crowd.books.ended)
        await crowd.tree.close()

    play(story)


def test_workers_without_work_leave_at_once_and_work_that_comes_meanwhile_is_not_forgotten() -> None:
    async def story() -> None:
        crowd = Crowd(8)
        await turns()
        crowd.resize(1)
        crowd.offer(1)
        crowd.offer(1)
        await turns()
        assert 1 == len(crowd.pool.slots)
        await asyncio.sleep(2.1)
        assert 2 == crowd.books.ended
        await crowd.tree.close()

    play(story)


def test_one_that_was_sent_home_and_called_back_before_its_message_ended_stays() -> None:
    async def story() -> None:
        crowd = Crowd(3)
        crowd.offer(9)
        await asyncio.sleep(0.5)
        crowd.resize(1)
        slots = crowd.pool.slots
        crowd.resize(3)
        assert slots == crowd.pool.slots
        await asyncio.sleep(3)
        assert (3, 9) == (crowd.most, crowd.books.ended)
        await crowd.tree.close()

    play(story)


class ThreadGauge:
    def __init__(self, seconds: float) -> None:
        self.seen: Counter[int] = Counter()
        self.now = self.most = 0
        self.gate = threading.Event()
        self.gate.set()
        self._lock = threading.Lock()
        self._seconds = seconds

    def __call__(self, message: Message) -> None:
        with self._lock:
            self.seen[message.queue_offset] += 1
            self.now += 1
            self.most = max(self.most, self.now)
        time.sleep(self._seconds)
        assert self.gate.wait(PATIENCE_S)
        with self._lock:
            self.now -= 1


def test_threads_become_twenty_and_then_two() -> None:
    async def story() -> None:
        gauge = ThreadGauge(0.05)
        gauge.gate.clear()
        books = Books(gauge)
        pool = ThreadPool(4, RealClock(), RealWorkers())
        for _ in range(20):
            pool.offer(books.admit(32))
        await until(lambda: gauge.now == 4)
        pool.resize(20)
        await until(lambda: gauge.now == 20)
        pool.resize(2)
        gauge.gate.set()
        await until(lambda: len(pool.slots) == 2)
        gauge.most = 0
        await until(lambda: gauge.most)
        await asyncio.sleep(0.2)
        assert gauge.most <= 2
        pool.resize(40)
        await until(lambda: books.ended == 640)
        assert dict.fromkeys(range(640), 1) == gauge.seen
        assert 640 == books.window.settle()
        await until(lambda: pool.runs(books.window) == 0)

    asyncio.run(story())


@pytest.mark.parametrize("slow", range(2))
def test_no_thread_starts_beside_a_long_handler_when_one_is_asked_for(slow: int) -> None:
    async def story() -> None:
        begun: list[int] = []
        may_end = [threading.Event() for _ in range(4)]

        def handle(message: Message) -> None:
            begun.append(message.queue_offset)
            may_end[message.queue_offset].wait(PATIENCE_S)

        books = Books(handle)
        pool = ThreadPool(2, RealClock(), RealWorkers())
        pool.offer(books.admit(4))
        try:
            await until(lambda: len(begun) == 2)
            pool.resize(1)
            may_end[1 - slow].set()
            await until(lambda: books.ended == 1)
            await asyncio.sleep(0.1)
            assert [0, 1] == sorted(begun)
        finally:
            for each in may_end:
                each.set()
        await until(lambda: books.ended == 4)
        await until(lambda: pool.runs(books.window) == 0)
        assert 1 == len(pool.slots)

    asyncio.run(story())


@pytest.mark.parametrize("seed", range(3))
def test_threads_of_changing_number_handle_each_message_once(seed: int) -> None:
    async def story() -> None:
        dice = random.Random(seed)
        gauge = ThreadGauge(0.002)
        books = Books(gauge)
        pool, sent = ThreadPool(2, RealClock(), RealWorkers()), 0
        for _ in range(40):
            sent += (count := dice.choice((1, 2, 5, 32)))
            pool.offer(books.admit(count))
            pool.resize(dice.randint(1, 6))
            await asyncio.sleep(dice.choice((0, 0.001, 0.01)))
        await until(lambda: books.ended == sent)
        assert dict.fromkeys(range(sent), 1) == gauge.seen
        assert gauge.most <= 12, "those who leave may overlap with those who come, and nobody else"
        await until(lambda: pool.runs(books.window) == 0)

    asyncio.run(story())
