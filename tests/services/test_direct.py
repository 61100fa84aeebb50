"""Direct consumption: what a handler's result is called, and how long it may take."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from framework.model.message import Message
from framework.model.outcome import Ack, Commit, DeadLetter, Drop, RetryLater, Rollback, Suspend
from framework.services.direct import PATIENCE_MS, REMARK_MAX, consume_directly
from framework.wire.bodies.running import COMMIT, LATER, ROLLBACK, SUCCESS, THREW, DirectResult
from tests.services.parts import LoopClock, play
from tests.services.pool.test_threads import InlineWorkers

MESSAGE = Message("orders", b"x")


def consumed(call: Callable[[Message], Any], *, is_async: bool = True) -> DirectResult:
    async def story() -> DirectResult:
        return await consume_directly(
            call, MESSAGE, is_async=is_async, is_orderly=False, workers=InlineWorkers(), clock=LoopClock()
        )

    return play(story)


@pytest.mark.parametrize(
    ("result", "word", "remark"),
    [
        (None, SUCCESS, None),
        (Ack(), SUCCESS, None),
        ("anything", SUCCESS, None),
        (Drop("filter", "too old"), SUCCESS, "dropped by filter: too old"),
        (RetryLater(), LATER, None),
        (RetryLater("90s", "no stock"), LATER, "in 90s: no stock"),
        (DeadLetter("no such order"), LATER, "a dead letter: no such order"),
        (Suspend("2s"), LATER, "suspends its queue for 2s"),
        (Commit(), COMMIT, None),
        (Rollback(reason="closed"), ROLLBACK, "closed"),
        (
            RetryLater,
            THREW,
            "TypeError('the handler returned the class RetryLater; return RetryLater(...)')",
        ),
    ],
)
def test_a_result_is_called_by_rocketmqs_word(result: object, word: str, remark: str | None) -> None:
    async def handle(_: Message) -> object:
        return result

    def handle_in_a_thread(_: Message) -> object:
        return result

    for each in (consumed(handle), consumed(handle_in_a_thread, is_async=False)):
        assert (word, remark) == (each.result, each.remark)
        assert (False, True) == (each.order, each.auto_commit)


class Panic(BaseException):
    """None of Exception's."""


@pytest.mark.parametrize(
    "error",
    [
        ValueError("no stock"), TimeoutError("their own"), asyncio.CancelledError("within"), Panic("index"),
        StopIteration("rows"), StopAsyncIteration("pages"), GeneratorExit("closed"),
    ],
    ids=repr,
)  # fmt: skip
def test_an_error_is_named(error: BaseException) -> None:
    """A time-out or a cancellation of the handler's own is its error, and not ours."""

    async def handle(_: Message) -> None:
        raise error

    def handle_in_a_thread(_: Message) -> None:
        raise error

    for answer in (consumed(handle), consumed(handle_in_a_thread, is_async=False)):
        assert THREW == answer.result
        if not isinstance(error, StopIteration):  # of whose text Python makes words of its own
            assert str(error) in (answer.remark or "")


def test_a_handler_that_cancels_its_task_is_answered_for() -> None:
    async def handle(_: Message) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel("by itself")
        await asyncio.sleep(60)

    answer = consumed(handle)
    assert (THREW, "RuntimeError('the handler was cancelled from within: by itself')") == (answer.result, answer.remark)


def test_an_endless_error_is_cut() -> None:
    async def handle(_: Message) -> None:
        raise ValueError("x" * 10_000)

    assert REMARK_MAX == len(consumed(handle).remark or "")


def test_a_handler_that_takes_too_long_is_cancelled_and_the_broker_still_waits_for_the_answer() -> None:
    ended: list[str] = []

    async def handle(_: Message) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("cancelled")

    answer = consumed(handle)
    assert (THREW, PATIENCE_MS) == (answer.result, answer.spent_ms)
    assert "no result within 9500 ms" in (answer.remark or "")
    assert ["cancelled"] == ended
    assert answer.spent_ms < 10_000, "the broker's own patience"


def test_how_long_it_took_is_told() -> None:
    async def handle(_: Message) -> None:
        await asyncio.sleep(1.25)

    assert 1250 == consumed(handle).spent_ms


def test_a_stop_meanwhile_goes_through() -> None:
    async def handle(_: Message) -> None:
        await asyncio.sleep(60)

    async def story() -> bool:
        coro = consume_directly(
            handle, MESSAGE, is_async=True, is_orderly=False, workers=InlineWorkers(), clock=LoopClock()
        )
        task = asyncio.get_running_loop().create_task(coro)
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.sleep(0.1)
        return task.cancelled()

    assert play(story)
