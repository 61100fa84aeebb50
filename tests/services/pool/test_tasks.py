"""WorkerPool: each message once, never more at once than there are workers; nothing per message beside the handler."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from framework.core.chunk import Chunk
from framework.model.message import Message
from framework.model.outcome import RetryLater
from framework.services.pool.tasks import WorkerPool
from framework.testing.sim.virtual_loop import POLICIES, Policy
from tests.services.parts import Books, LoopClock, end, messages_from, play, start, turns

every_order = pytest.mark.parametrize(
    ("seed", "policy"), [(seed, policy) for policy in POLICIES for seed in range(1 if policy == "fifo" else 4)]
)


class Gauge:
    """A handler that counts how many of it run at once."""

    def __init__(self, pause: Callable[[Message], Awaitable[object]] | None = None) -> None:
        self.seen: Counter[int] = Counter()
        self.order: list[int] = []
        self.most = 0
        self._now = 0
        self._pause = pause

    async def __call__(self, message: Message) -> None:
        self.seen[message.queue_offset] += 1
        self.order.append(message.queue_offset)
        self._now += 1
        self.most = max(self.most, self._now)
        if self._pause is not None:
            await self._pause(message)
        self._now -= 1


async def a_second(_: Message) -> None:
    await asyncio.sleep(1)


def pool_of(size: int) -> tuple[WorkerPool, list[asyncio.Task[None]]]:
    pool = WorkerPool(size, LoopClock())
    return pool, [start(pool.work(slot), f"worker {number}") for number, slot in enumerate(pool.slots)]


@every_order
def test_concurrency_is_reached_and_never_exceeded_and_each_message_runs_once(seed: int, policy: Policy) -> None:
    async def story() -> None:
        gauge = Gauge(a_second)
        books = Books(gauge)
        pool, tasks = pool_of(5)
        for count in (1, 8, 2, 32, 1, 1, 7):
            pool.offer(books.admit(count))
        await asyncio.sleep(30)
        await end(*tasks)

        assert 5 == gauge.most
        assert dict.fromkeys(range(52), 1) == gauge.seen
        assert (52, 52) == (books.ended, books.window.committable)
        assert books.window.is_empty

    play(story, seed=seed, policy=policy)


@every_order
def test_work_that_comes_one_by_one_reaches_every_worker(seed: int, policy: Policy) -> None:
    async def story() -> int:
        gauge = Gauge(a_second)
        books = Books(gauge)
        pool, tasks = pool_of(4)
        await turns()
        for _ in range(12):
            pool.offer(books.admit(1))
            await asyncio.sleep(0)
        await asyncio.sleep(10)
        await end(*tasks)
        assert 12 == books.ended
        return gauge.most

    assert 4 == play(story, seed=seed, policy=policy)


@every_order
def test_messages_of_different_length_are_each_handled_once(seed: int, policy: Policy) -> None:
    """Some never suspend, some for long: ends come out of order."""

    async def sometimes_long(message: Message) -> None:
        if message.queue_offset % 3:
            await asyncio.sleep(message.queue_offset % 7)

    async def story() -> None:
        gauge = Gauge(sometimes_long)
        books = Books(gauge)
        pool, tasks = pool_of(6)
        for _ in range(10):
            pool.offer(books.admit(13))
            await asyncio.sleep(0.5)
        await asyncio.sleep(200)
        await end(*tasks)

        assert dict.fromkeys(range(130), 1) == gauge.seen
        assert gauge.most <= 6
        assert 130 == books.window.settle()

    play(story, seed=seed, policy=policy)


def test_messages_are_started_in_the_order_of_their_offsets() -> None:
    async def story() -> list[int]:
        gauge = Gauge(a_second)
        books = Books(gauge)
        pool, tasks = pool_of(3)
        for _ in range(3):
            pool.offer(books.admit(4))
        await asyncio.sleep(10)
        await end(*tasks)
        return gauge.order

    assert list(range(12)) == play(story, policy="fifo")


def handler_that(act: Callable[[], object]) -> Callable[[Message], Awaitable[object]]:
    async def handler(_: Message) -> object:
        await asyncio.sleep(0)
        return act()

    return handler


def fail() -> None:
    raise ValueError("no such order")


async def cancels_from_within(_: Message) -> None:
    waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    waiting.cancel("a library's own")
    await waiting


async def runs_out_of_its_own_time(_: Message) -> None:
    async with asyncio.timeout(1):
        await asyncio.sleep(100)


@pytest.mark.parametrize(
    ("expected", "handler"),
    [
        ("ValueError('no such order')", handler_that(fail)),
        ("RetryLater(delay='30s', reason='')", handler_that(lambda: RetryLater("30s"))),
        ("0", handler_that(lambda: 0)),
        ('RuntimeError("the handler was cancelled from within: a library\'s own")', cancels_from_within),
        ("TimeoutError()", runs_out_of_its_own_time),
    ],
)
def test_what_is_not_plain_success_goes_the_uncommon_way_and_the_worker_goes_on(
    expected: str, handler: Callable[[Message], Awaitable[object]]
) -> None:
    async def story() -> None:
        books = Books(handler)
        pool, tasks = pool_of(2)
        pool.offer(books.admit(3))
        await asyncio.sleep(10)
        assert all(not task.done() for task in tasks)
        await end(*tasks)

        assert [(0, expected), (1, expected), (2, expected)] == sorted(books.uncommon_ends)
        assert 0 == books.ended
        assert 3 == books.window.committable

    play(story)


def test_a_chunk_that_is_finished_by_a_value_behind_a_gap_is_not_run_again() -> None:
    """A value settles the message at once, from inside the worker, and the chunk behind the gap is released there."""

    async def story() -> None:
        stuck = asyncio.Event()
        seen: Counter[int] = Counter()

        async def handler(message: Message) -> object:
            seen[message.queue_offset] += 1
            if message.queue_offset == 0:
                await stuck.wait()
            return True

        books = Books(handler)
        pool, tasks = pool_of(2)
        pool.offer(books.admit(1))
        pool.offer(books.admit(4))
        await asyncio.sleep(1)
        assert {0: 1, 1: 1, 2: 1, 3: 1, 4: 1} == seen
        assert 0 == books.window.committable
        stuck.set()
        await asyncio.sleep(1)
        assert all(not task.done() for task in tasks)
        await end(*tasks)
        assert 5 == books.window.committable
        assert 5 == seen.total()

    play(story)


class Traced(Message):
    __slots__ = ("__weakref__",)


def traced_chunk(books: Books, count: int) -> tuple[Chunk, list[weakref.ref[Traced]]]:
    messages = [Traced("orders", queue_offset=offset) for offset in range(count)]
    chunk = books.window.admit(messages, 0, count, 10)
    assert chunk is not None
    return chunk, [weakref.ref(message) for message in messages]


async def succeeds(_: Message) -> None:
    await asyncio.sleep(0)


async def returns_it(message: Message) -> object:
    await asyncio.sleep(0)
    return message


async def raises_with_it(message: Message) -> None:
    await asyncio.sleep(0)
    raise ValueError(message)


@pytest.mark.parametrize("handler", [succeeds, returns_it, raises_with_it])
def test_idle_workers_keep_no_message_alive(handler: Callable[[Message], Awaitable[object]]) -> None:
    """Nor through the traceback of an error: one message keeps its whole pull's bytes."""

    async def story() -> None:
        books = Books(handler)
        pool, tasks = pool_of(4)
        chunk, traces = traced_chunk(books, 6)
        pool.offer(chunk)
        del chunk
        await asyncio.sleep(1)
        gc.collect()
        alive = [trace() for trace in traces if trace() is not None]
        await end(*tasks)
        assert [] == alive

    play(story)


def test_a_worker_that_is_cancelled_ends_at_once_and_settles_nothing() -> None:
    async def story() -> None:
        books = Books(a_second)
        pool, (busy, idle) = pool_of(2)
        pool.offer(books.admit(1))
        await asyncio.sleep(0.5)
        busy.cancel()
        idle.cancel()
        await turns()
        assert busy.cancelled()
        assert idle.cancelled()
        assert (0, []) == (books.ended, books.uncommon_ends)
        assert 0 == books.window.settle()

    play(story, policy="fifo")


def test_work_offered_while_an_idle_worker_is_being_cancelled_wakes_another() -> None:
    async def story() -> int:
        gauge = Gauge()
        books = Books(gauge)
        pool, tasks = pool_of(3)
        await turns()
        tasks[2].cancel()
        pool.offer(books.admit(1))
        await turns()
        await end(*tasks)
        return gauge.seen.total()

    assert 1 == play(story, policy="fifo")


def test_a_window_taken_away_starts_nothing_more() -> None:
    async def story() -> None:
        gauge = Gauge(a_second)
        books = Books(gauge)
        other = Books(gauge)
        pool, tasks = pool_of(2)
        pool.offer(books.admit(10))
        pool.offer(books.admit(10))
        pool.offer(other.admit(3))
        await asyncio.sleep(1.5)
        assert 2 == pool.runs(books.window)
        books.window.stop_handing_out()
        await asyncio.sleep(10)
        await end(*tasks)

        assert 4 == books.ended == books.window.settle()
        assert 3 == other.ended
        assert 0 == pool.runs(books.window)

    play(story)


def test_what_ends_after_its_window_was_closed_moves_nothing() -> None:
    async def story() -> None:
        books = Books(a_second)
        pool, tasks = pool_of(2)
        pool.offer(books.admit(4))
        await asyncio.sleep(0.5)
        books.window.close()
        await asyncio.sleep(10)
        await end(*tasks)
        assert 0 == books.window.settle()

    play(story)


def test_a_slot_shows_what_runs_and_since_when() -> None:
    async def story() -> None:
        books = Books(a_second)
        pool, tasks = pool_of(2)
        await asyncio.sleep(5)
        chunk = books.admit(2)
        pool.offer(chunk)
        await asyncio.sleep(0.5)
        shown = sorted((slot.chunk is chunk, slot.index, int(slot.started)) for slot in pool.slots)
        assert [(True, 0, 5), (True, 1, 5)] == shown
        assert "<WorkerPool 2 of 2 busy, 1 chunks ready>" == repr(pool)
        await asyncio.sleep(5)
        assert "<WorkerPool 0 of 2 busy, 0 chunks ready>" == repr(pool)
        await end(*tasks)

    play(story)


def test_a_message_is_handed_over_as_it_was_pulled() -> None:
    async def story() -> None:
        got: list[Message] = []

        async def handler(message: Message) -> None:
            got.append(message)

        books = Books(handler)
        pool, tasks = pool_of(1)
        messages = messages_from(0, 3)
        chunk = books.window.admit(messages, 0, 3, 10)
        assert chunk is not None
        pool.offer(chunk)
        await turns()
        await end(*tasks)
        assert all(one is other for one, other in zip(messages, got, strict=True))

    play(story)
