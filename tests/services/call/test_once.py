"""Once: what is a repeat, and that no store can cost a message."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from framework import Ack, DeadLetter, Drop, Message, RetryLater
from framework.errors import BodyUnavailable, StoreError
from framework.hooks.builtin.dedup.once_memory import MemoryKeys
from framework.model.delivery import Delivery
from framework.services.call.once import PATIENCE_SECONDS, QUIET_SECONDS, Once
from tests.services.parts import QUEUE, LoopClock, play, play_logged, start, told, turns

MINUTES_MS = 30 * 60_000


class Means:
    group, folder = "billing", ""
    now_ms = LoopClock().now_ms

    async def in_thread(self, job: Any) -> Any:
        return job()


class Failing:
    """Raises, or hangs."""

    def __init__(self, *, hangs: bool) -> None:
        self.hangs, self.works = hangs, False

    async def has(self, key: str) -> bool:
        if not self.works:
            if self.hangs:
                await asyncio.Event().wait()
            raise StoreError("the disk is full")
        return False

    async def record(self, key: str, keep_ms: int) -> None:
        await self.has(key)

    async def close(self) -> None: ...


def once_of(store: Any = None) -> Once:
    return Once("billing", "orders", "memory", store or MemoryKeys(Means()), LoopClock())


def message(message_id: str = "A1", **given: Any) -> Message:
    return Message("orders", b"x", message_id=message_id, queue=QUEUE, **given)


class Handler:
    def __init__(self, *answers: object) -> None:
        self.answers, self.given = list(answers), list[Message]()

    async def __call__(self, message: Message, delivery: Delivery) -> object:
        self.given.append(message)
        await asyncio.sleep(1)
        return self.answers.pop(0) if self.answers else None


async def give(once: Once, handler: Handler, message: Message, key_of: Any = None) -> object:
    return await once.around(Delivery("billing", message, 0.0), handler, key_of, MINUTES_MS)


def test_a_repeat_is_dropped_for_its_time_and_no_longer() -> None:
    once, handler = once_of(), Handler()

    async def story() -> None:
        assert await give(once, handler, message()) is None
        repeat = await give(once, handler, message())
        assert isinstance(repeat, Drop)
        assert ("once", "'orders A1' was handled less than 1800 s ago") == (repeat.by, repeat.reason)
        assert await give(once, handler, message("B2")) is None
        await asyncio.sleep(MINUTES_MS / 1000)
        assert await give(once, handler, message()) is None

    play(story)
    assert (3, 1, 0) == (len(handler.given), once.dropped, once.failures)


@pytest.mark.parametrize(
    "answer",
    [RetryLater("1s"), DeadLetter("no"), Drop("me"), ValueError("no"), BodyUnavailable("no codec")],
    ids=repr,
)
def test_what_was_no_success_is_no_repeat_when_it_comes_again(answer: object) -> None:
    once, handler = once_of(), Handler(answer, Ack())

    async def story() -> None:
        assert answer == await give(once, handler, message())
        assert Ack() == await give(once, handler, message(attempt=2))
        assert isinstance(await give(once, handler, message(attempt=3)), Drop)

    play(story)


@pytest.mark.parametrize(("first", "handled"), [(None, 1), (ValueError("no"), 2)], ids=repr)
def test_of_two_at_once_the_second_waits_for_the_end_of_the_first(first: object, handled: int) -> None:
    once, handler = once_of(), Handler(first)

    async def story() -> None:
        tasks = [start(give(once, handler, message())) for _ in range(2)]
        await turns()
        assert 1 == len(handler.given)
        for task in tasks:
            await task

    play(story)
    assert (handled, 2 - handled) == (len(handler.given), once.dropped)


def test_whoever_waits_goes_on_where_the_first_is_cancelled() -> None:
    once, handler = once_of(), Handler()

    async def story() -> None:
        first, second = (start(give(once, handler, message())) for _ in range(2))
        await turns()
        first.cancel()
        assert await second is None

    play(story)
    assert 2 == len(handler.given)


def test_a_key_of_ones_own_tells_repeats_and_none_is_none() -> None:
    once, handler = once_of(), Handler()

    def number(message: Message) -> object:
        return int(message.keys[0]) if message.keys else None

    async def story() -> None:
        assert await give(once, handler, message("A1", keys="7"), number) is None
        assert isinstance(await give(once, handler, message("B2", keys="7"), number), Drop)
        for _ in range(2):
            assert await give(once, handler, message("C3"), number) is None

    play(story)


@pytest.mark.parametrize("hangs", [False, True])
def test_a_store_that_fails_has_its_messages_handled_and_is_named_once(*, hangs: bool) -> None:
    store = Failing(hangs=hangs)
    once, handler = once_of(store), Handler()

    async def story() -> None:
        for _ in range(3):
            assert await give(once, handler, message()) is None
        store.works = True
        assert await give(once, handler, message()) is None

    _, lines = play_logged(story)
    reason = f"TimeoutError: no answer in {PATIENCE_SECONDS:.0f} s" if hangs else "StoreError: the disk is full"
    assert (4, 6) == (len(handler.given), once.failures)
    assert [("duplicate check failed", reason)] == told(lines, "reason")
    assert "duplicate check recovered" == lines[-1]["event"]


def test_a_store_that_is_slow_is_named_when_it_begins_and_still_tells_repeats() -> None:
    class Slow(MemoryKeys):
        async def has(self, key: str) -> bool:
            await asyncio.sleep(2)
            return await super().has(key)

    once, handler = once_of(Slow(Means())), Handler()

    async def story() -> None:
        for _ in range(3):
            await give(once, handler, message())
        await asyncio.sleep(QUIET_SECONDS + 1)
        await give(once, handler, message())

    _, lines = play_logged(story)
    slow = ("duplicate check slow", "memory", 2000)
    assert [slow, slow] == [each for each in told(lines, "store", "elapsed_ms") if "slow" in each[0]]
    assert (1, 3, 0) == (len(handler.given), once.dropped, once.failures)


def test_a_key_function_that_fails_has_its_messages_handled() -> None:
    once, handler = once_of(), Handler()

    async def story() -> None:
        for _ in range(2):
            assert await give(once, handler, message(), lambda message: message.keys[0]) is None

    play(story)
    assert (2, 2) == (len(handler.given), once.failures)


def test_an_end_after_its_limit_is_not_recorded() -> None:
    """Its message was settled otherwise, and what comes again may be all that is ever finished."""

    class Expired:
        verdict = RetryLater("1s")

        def extend(self, by: str | float) -> bool:
            return False

    once, handler = once_of(), Handler()

    async def story() -> None:
        delivery = Delivery("billing", message(), 0.0, Expired())
        assert await once.around(delivery, handler, None, MINUTES_MS) is None
        assert await give(once, handler, message(attempt=2)) is None

    play(story)
    assert 2 == len(handler.given)


def test_repeats_are_said_when_they_begin() -> None:
    once, handler = once_of(), Handler()

    async def story() -> None:
        for _ in range(4):
            await give(once, handler, message())
        await asyncio.sleep(QUIET_SECONDS + 1)
        await give(once, handler, message())

    _, lines = play_logged(story)
    assert [("duplicates dropped", 1), ("duplicates dropped", 4)] == told(lines, "dropped")
