"""Taking back what nobody has started, while workers are inside: each message is started once, by one of the two."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from framework.core.chunk import Chunk
from framework.model.message import Message
from framework.net.real_clock import RealClock
from framework.net.real_world import RealWorkers
from framework.services.pool.tasks import WorkerPool
from framework.services.pool.threads import ThreadPool
from tests.patience import until
from tests.services.parts import Books, LoopClock, end, play, start, turns
from tests.services.pool.test_threads import Awaited, InlineWorkers, play_for_real

FAILURES = 5


class Tripping(Books):
    """Takes everything back at the fifth failure."""

    def __init__(self, call: Callable[[Message], Any]) -> None:
        super().__init__(call)
        self.pool: Any = None
        self.taken: list[Chunk] = []
        self.tripped = asyncio.Event()

    def not_success(self, chunk: Chunk, index: int, result: object, started: float) -> None:
        self.uncommon_ends.append((chunk.messages[index].queue_offset, repr(result)))
        if len(self.uncommon_ends) == FAILURES:
            self.taken = self.pool.take_back(self.window)
            self.tripped.set()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("suspends", [True, False])
def test_tasks_start_nothing_more_and_what_comes_back_can_be_offered_again(seed: int, *, suspends: bool) -> None:
    async def story() -> None:
        seen: Counter[int] = Counter()
        is_broken = True

        async def handler(message: Message) -> None:
            seen[message.queue_offset] += 1
            if suspends:
                await asyncio.sleep(0.01)
            if is_broken:
                raise ValueError

        books = Tripping(handler)
        pool = books.pool = WorkerPool(4, LoopClock())
        workers = [start(pool.work(slot)) for slot in pool.slots]
        for count in (1, 32, 9):
            pool.offer(books.admit(count))
        await asyncio.sleep(1)
        assert FAILURES <= len(books.uncommon_ends) < FAILURES + 4
        assert 42 == sum(seen.values()) + sum(chunk.count for chunk in books.taken)

        is_broken = False
        for chunk in books.taken:
            pool.offer(chunk)
        await asyncio.sleep(1)
        assert dict.fromkeys(range(42), 1) == seen
        await end(*workers)

    play(story, seed=seed)


def test_threads_that_fail_come_home_before_they_start_anything_more() -> None:
    async def story() -> None:
        lock, seen = threading.Lock(), Counter[int]()

        def handler(message: Message) -> None:
            with lock:
                seen[message.queue_offset] += 1
            raise ValueError

        books = Tripping(handler)
        pool = books.pool = ThreadPool(4, RealClock(), RealWorkers())
        for _ in range(30):
            pool.offer(books.admit(32))
        await books.tripped.wait()
        await until(lambda: not pool._out)

        assert sum(seen.values()) < FAILURES + 4, "one a thread at most, beside those that opened it"
        assert 960 == sum(seen.values()) + sum(chunk.count for chunk in books.taken)
        assert 1 == max(seen.values())

    play_for_real(story)


@pytest.mark.parametrize("round_", range(5))
def test_threads_and_the_loop_draw_each_message_once(round_: int) -> None:
    async def story() -> None:
        lock, seen = threading.Lock(), Counter[int]()

        def handler(message: Message) -> None:
            with lock:
                seen[message.queue_offset] += 1

        books = Awaited(handler, 2_000)
        pool = ThreadPool(4, RealClock(), RealWorkers())
        for _ in range(10):
            pool.offer(books.admit(200))
        for _ in range(20):
            await asyncio.sleep(0)
            for chunk in pool.take_back(books.window):
                pool.offer(chunk)
        await books.all_ended.wait()
        assert dict.fromkeys(range(2_000), 1) == seen

    play_for_real(story)


def test_what_threads_have_started_and_is_not_settled_yet_is_not_taken_back() -> None:
    """Their copies may be on their way to a broker: handed out again, each would be run twice."""

    async def story() -> None:
        def handler(_: Message) -> None:
            raise ValueError

        books = Books(handler)
        books.not_success = lambda *_: None  # type: ignore[method-assign]  # nothing of it ends
        pool = ThreadPool(2, LoopClock(), InlineWorkers())
        pool.offer(books.admit(5))
        await turns(200)

        assert [] == pool.take_back(books.window)

    play(story)
