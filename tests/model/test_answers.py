"""Answers that seem to ask for something: success would lose their message."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from typing import Any

import pytest

from framework import Ack, Commit, DeadLetter, Drop, Extend, Retry, RetryLater, Rollback, Suspend
from framework.model.answers import understood


def rows() -> Iterator[int]:
    yield 1


class Query:
    """As those of an ORM: awaiting it runs it."""

    def __await__(self) -> Iterator[Any]:
        yield


@pytest.mark.parametrize("outcome", [Ack, Commit, DeadLetter, Drop, RetryLater, Rollback, Suspend])
def test_the_class_of_an_outcome_is_an_error_with_the_call_to_write(outcome: type) -> None:
    name = outcome.__name__

    assert f"the handler returned the class {name}; return {name}(...)" == str(understood(outcome))


@pytest.mark.parametrize("error", [ValueError, TimeoutError, KeyboardInterrupt, asyncio.CancelledError])
def test_the_class_of_an_exception_is_to_be_raised(error: type) -> None:
    assert f"the handler returned the class {error.__name__}; raise {error.__name__}(...)" == str(understood(error))


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (KeyboardInterrupt("x"), "the handler returned KeyboardInterrupt('x'); raise it"),
        (Extend("1m"), "the handler returned an Extend; return RetryLater(...)"),
        (Extend, "the handler returned the class Extend; return RetryLater(...)"),
        (Retry(max=3), "the handler returned a Retry; return RetryLater(...)"),
        (rows(), "the handler returned a generator, so nothing of that has run; loop over it"),
        (map(print, [1]), "the handler returned a map, so nothing of that has run; loop over it"),
        (Query(), "the handler returned a Query without waiting for it; await it in an async handler"),
    ],
)  # fmt: skip
def test_what_is_for_others_or_has_not_run_is_an_error(answer: object, said: str) -> None:
    found = understood(answer)

    assert isinstance(found, TypeError)
    assert said == str(found)


def test_a_coroutine_is_closed_or_python_would_warn_of_it() -> None:
    async def save() -> None:
        raise AssertionError("never runs")

    coroutine = save()

    assert "a coroutine, so nothing of that has run; await it in an async handler" in str(understood(coroutine))
    assert "CORO_CLOSED" == inspect.getcoroutinestate(coroutine)


@pytest.mark.parametrize("answer", [None, 0, True, "done", b"", [1], {}, RetryLater("1s"), ValueError("x"), dict, int])
def test_any_other_value_stays_what_it_is(answer: object) -> None:
    assert understood(answer) is answer
