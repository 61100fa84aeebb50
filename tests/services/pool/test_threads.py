"""ThreadPool: the same promises with threads, first stepped through one at a time, then with real ones."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import pytest

from framework.core.chunk import Chunk
from framework.model.message import Message
from framework.model.outcome import RetryLater
from framework.net.real_clock import RealClock
from framework.net.real_world import RealWorkers
from framework.services.pool.threads import ThreadPool
from tests.patience import PATIENCE_S, soon
from tests.services.parts import Books, LoopClock, play, turns

T = TypeVar("T")


class InlineWorkers:
    """Jobs run on the loop's own thread; homecoming is a step of its own, and a test may hold it back."""

    def __init__(self) -> None:
        self.submitted = 0
        self.at_the_door: deque[Callable[[], None]] = deque()
        self.is_door_shut = False
        self._callbacks: deque[Callable[[], None]] = deque()

    def submit(self, job: Callable[[], T], done: Callable[[T | None, BaseException | None], None]) -> None:
        self.submitted += 1

        def run() -> None:
            result, error = None, None
            try:
                result = job()
            except BaseException as caught:  # noqa: BLE001  # as real workers do: the job's owner is told
                error = caught
            self.at_the_door.append(lambda: done(result, error))
            if not self.is_door_shut:
                self.open_the_door()

        asyncio.get_running_loop().call_soon(run)

    def run(self, job: Callable[[], T]) -> Awaitable[T]:
        raise AssertionError("the pool submits")

    def call_soon(self, callback: Callable[[], None]) -> None:
        """In the order in which they were asked for, as an event loop promises."""
        self._callbacks.append(callback)
        asyncio.get_running_loop().call_soon(self._call_next)

    def _call_next(self) -> None:
        self._callbacks.popleft()()

    def open_the_door(self) -> None:
        while self.at_the_door:
            asyncio.get_running_loop().call_soon(self.at_the_door.popleft())


class Gauge:
    def __init__(self) -> None:
        self.seen: Counter[int] = Counter()

    def __call__(self, message: Message) -> None:
        self.seen[message.queue_offset] += 1


@pytest.mark.parametrize("seed", range(5))
def test_each_message_is_handled_once_and_its_end_comes_home(seed: int) -> None:
    async def story() -> None:
        gauge, workers = Gauge(), InlineWorkers()
        books = Books(gauge)
        pool = ThreadPool(4, LoopClock(), workers)
        for count in (1, 32, 2, 7):
            pool.offer(books.admit(count))
        await asyncio.sleep(1)

        assert dict.fromkeys(range(42), 1) == gauge.seen
        assert (42, 42) == (books.ended, books.window.committable)
        assert 0 == pool.runs(books.window)
        assert "<ThreadPool 0 of 4 busy, 0 ready>" == repr(pool)

    play(story, seed=seed)


def test_quick_handlers_are_run_by_one_thread() -> None:
    """Others would only fight for the interpreter."""

    async def story() -> int:
        workers = InlineWorkers()
        books = Books(Gauge())
        pool = ThreadPool(4, LoopClock(), workers)
        for _ in range(5):
            pool.offer(books.admit(32))
        await turns()
        assert 160 == books.ended
        return workers.submitted

    assert 1 == play(story)


def test_nothing_is_lost_when_a_chunk_comes_while_the_last_thread_goes_home() -> None:
    async def story() -> None:
        workers = InlineWorkers()
        books = Books(Gauge())
        pool = ThreadPool(4, LoopClock(), workers)
        workers.is_door_shut = True
        pool.offer(books.admit(2))
        await turns()
        assert 2 == books.ended
        pool.offer(books.admit(3))
        await turns()
        assert 2 == books.ended, "the thread has looked for the last time, and is not back yet"
        workers.is_door_shut = False
        workers.open_the_door()
        await turns()
        assert 5 == books.ended

    play(story)


def fail(_: Message) -> None:
    raise ValueError("no such order")


def lose_a_loop(_: Message) -> None:
    raise asyncio.CancelledError("its own")


@pytest.mark.parametrize(
    ("expected", "handler"),
    [
        ("ValueError('no such order')", fail),
        ("RuntimeError('the handler was cancelled from within: its own')", lose_a_loop),
        ("RetryLater(delay='30s', reason='')", lambda _: RetryLater("30s")),
        ("True", lambda _: True),
    ],
)
def test_what_is_not_plain_success_goes_the_uncommon_way(expected: str, handler: Callable[[Message], Any]) -> None:
    async def story() -> None:
        books = Books(handler)
        pool = ThreadPool(2, LoopClock(), InlineWorkers())
        pool.offer(books.admit(3))
        await turns()
        assert [(0, expected), (1, expected), (2, expected)] == books.uncommon_ends
        assert (0, 3) == (books.ended, books.window.committable)

    play(story)


def test_a_window_taken_away_starts_nothing_more() -> None:
    async def story() -> None:
        seen: list[int] = []

        def handler(message: Message) -> None:
            seen.append(message.queue_offset)
            if len(seen) == 3:
                books.window.stop_handing_out()

        books = Books(handler)
        pool = ThreadPool(2, LoopClock(), InlineWorkers())
        pool.offer(books.admit(10))
        pool.offer(books.admit(10))
        await turns()
        assert [0, 1, 2] == seen
        assert 3 == books.ended == books.window.settle()
        assert 0 == pool.runs(books.window)

    play(story)


def test_a_chunk_of_a_window_closed_before_it_was_started_is_not_run() -> None:
    async def story() -> None:
        gauge = Gauge()
        books = Books(gauge)
        pool = ThreadPool(2, LoopClock(), InlineWorkers())
        pool.offer(books.admit(10))
        books.window.close()
        await turns()
        assert {} == gauge.seen
        assert 0 == pool.runs(books.window)

    play(story)


def test_a_thread_counts_as_running_until_its_ends_have_come_home() -> None:
    """Whoever retires the queue is rung by the last end, and must not then find the thread still in: nobody would ring
    again, and the stop would wait for its whole drain limit.
    """

    async def story() -> None:
        running_when_told: list[int] = []

        class Told(Books):
            def left(self, chunk: Chunk, ended: int) -> None:
                super().left(chunk, ended)
                running_when_told.append(pool.runs(self.window))

        workers = InlineWorkers()
        workers.is_door_shut = True
        books = Told(lambda _: running_within.append(pool.runs(books.window)))
        running_within: list[int] = []
        pool = ThreadPool(2, LoopClock(), workers)
        pool.offer(books.admit(2))
        await turns()
        assert [1, 1] == running_within
        assert [0] == running_when_told

    play(story)


def test_what_ends_a_program_is_not_kept_from_ending_it() -> None:
    """`sys.exit()` in a handler means what it says, as it does in one that is awaited."""

    def leave(_: Message) -> None:
        raise SystemExit(3)

    async def story() -> None:
        pool = ThreadPool(2, LoopClock(), InlineWorkers())
        pool.offer(Books(leave).admit(1))
        await turns()

    with pytest.raises(SystemExit, match="3"):
        play(story)


# Real threads


def play_for_real(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    return asyncio.run(soon(main(), "the story's end"))


class Awaited(Books):
    """Books that say when so many messages have ended."""

    def __init__(self, call: Callable[[Message], Any], total: int) -> None:
        super().__init__(call)
        self._total = total
        self.all_ended = asyncio.Event()

    def left(self, chunk: Chunk, ended: int) -> None:
        super().left(chunk, ended)
        if self.ended + len(self.uncommon_ends) == self._total:
            self.all_ended.set()


class Slow:
    """A clock by which everything takes long, so that no test has to."""

    def __init__(self) -> None:
        self._real = RealClock()
        self._ahead = 0.0

    def now_ms(self) -> int:
        return self._real.now_ms()

    def monotonic(self) -> float:
        self._ahead += 0.002
        return self._real.monotonic() + self._ahead

    def monotonic_ms(self) -> int:
        return int(self.monotonic() * 1000)


def test_slow_handlers_overlap_up_to_the_size_and_not_beyond() -> None:
    async def story() -> None:
        lock = threading.Lock()
        everybody = threading.Event()
        seen: Counter[int] = Counter()
        inside = most = 0

        def handler(message: Message) -> None:
            nonlocal inside, most
            with lock:
                inside += 1
                most = max(most, inside)
                seen[message.queue_offset] += 1
                if inside == 4:
                    everybody.set()
            if message.queue_offset > 40:
                everybody.wait(PATIENCE_S)
            with lock:
                inside -= 1

        books = Awaited(handler, 320)
        pool = ThreadPool(4, Slow(), RealWorkers())
        for _ in range(10):
            pool.offer(books.admit(32))
        await books.all_ended.wait()

        assert 4 == most
        assert dict.fromkeys(range(320), 1) == seen
        assert 320 == books.window.committable

    play_for_real(story)


def test_one_handler_that_stands_still_does_not_stop_the_others() -> None:
    """It does not end, so it cannot invite another thread: somebody must look from outside."""

    async def story() -> None:
        others_done = threading.Event()
        seen: Counter[int] = Counter()

        def handler(message: Message) -> None:
            seen[message.queue_offset] += 1
            if message.queue_offset == 0:
                assert others_done.wait(PATIENCE_S), "nobody else was let in"
            if message.queue_offset == 39:
                others_done.set()

        books = Awaited(handler, 40)
        pool = ThreadPool(3, RealClock(), RealWorkers())
        pool.offer(books.admit(20))
        pool.offer(books.admit(20))
        await books.all_ended.wait()
        assert [] == books.uncommon_ends
        assert dict.fromkeys(range(40), 1) == seen

    play_for_real(story)


def test_under_a_steady_stream_of_chunks_every_end_comes_home_once() -> None:
    async def story() -> None:
        seen: Counter[int] = Counter()

        def handler(message: Message) -> object:
            seen[message.queue_offset] += 1
            return message.queue_offset % 10 == 0 or None

        counts = [1 + number % 9 for number in range(100)]
        total = sum(counts)
        books = Awaited(handler, total)
        pool = ThreadPool(4, Slow(), RealWorkers())
        for number, count in enumerate(counts):
            pool.offer(books.admit(count))
            if number % 3:
                await asyncio.sleep(0)
        await books.all_ended.wait()

        assert dict.fromkeys(range(total), 1) == seen
        assert total == books.window.settle()
        assert [offset for offset in range(total) if offset % 10 == 0] == sorted(
            offset for offset, _ in books.uncommon_ends
        )

    play_for_real(story)
