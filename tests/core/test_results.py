"""What a handler's end comes to: explicit acknowledgements, kinds of ends, and the declared Retry."""

from __future__ import annotations

from typing import Any

import pytest

from framework.core.results import Result, by_policy, explicit, kind_of, result_of
from framework.model.outcome import (
    Ack,
    BatchFailed,
    Commit,
    DeadLetter,
    Drop,
    Outcome,
    RetryLater,
    Rollback,
    Suspend,
)  # fmt: skip
from framework.model.retrying import Retry


def end(value: object) -> tuple[Outcome, str]:
    result = result_of(value)
    return result.outcome, result.kind


@pytest.mark.parametrize(
    ("value", "outcome", "kind"),
    [
        (None, Ack(), "success"),
        (7, Ack(), "success"),
        (Ack(), Ack(), "success"),
        (Commit(), Ack(), "success"),
        (Drop("me"), Drop("me"), "success"),
        (RetryLater("1s"), RetryLater("1s"), "failed"),
        (DeadLetter("no"), DeadLetter("no"), "failed"),
        (Suspend(2), Suspend(2), "failed"),
        (KeyError("x"), RetryLater(reason="KeyError: 'x'"), "exception"),
    ],
    ids=repr,
)
def test_each_end_has_its_kind(value: object, outcome: Outcome, kind: str) -> None:
    assert (outcome, kind) == end(value)


def test_only_an_exception_is_shown() -> None:
    error = ValueError("x")

    assert result_of(error).error is error
    assert result_of(RetryLater()).error is None
    assert result_of(error).without_error().error is None


def test_what_was_judged_stays() -> None:
    result = Result(Ack(), "success")

    assert result_of(result) is result
    assert "<Result success Ack()>" == repr(result)


def test_what_takes_too_long_is_named_for_that() -> None:
    assert "timed_out" == kind_of(result_of(None), 60_000, 60_000)
    assert "success" == kind_of(result_of(None), 59_999, 60_000)


def test_explicit_ack_asks_for_an_outcome() -> None:
    assert explicit(Ack()) is None
    for value in (Commit(), RetryLater(), DeadLetter(), Rollback(), Drop("x"), ValueError()):
        assert explicit(value) is value
    assert ("nothing", RetryLater(reason="returned nothing, and explicit_ack asks for an outcome")) == end(
        explicit(None)
    )[::-1]
    assert ("nothing", RetryLater(reason="returned a int, and explicit_ack asks for an outcome")) == end(explicit(7))[
        ::-1
    ]


def judged(value: object, *, attempt: int = 1, age_ms: int = 0, **options: Any) -> tuple[Outcome, str]:
    return end(by_policy(Retry(**options), value, attempt, age_ms))


@pytest.mark.parametrize("value", [None, Ack(), DeadLetter("x"), Suspend(), Drop("x")], ids=repr)
def test_a_policy_is_about_failures_that_would_be_tried_again(value: object) -> None:
    assert by_policy(Retry(max=0), value, 1, 0) is value


def test_a_rollback_is_no_failure() -> None:
    assert isinstance(by_policy(Retry(max=0), Rollback(), 9, 0), Rollback)


def test_an_exception_that_is_worth_it_is_tried_again_after_its_delay() -> None:
    error, delays = TimeoutError("slow"), ["1s", "10s"]

    assert [("1s", 1), ("10s", 2), ("10s", 3)] == [
        (outcome.delay, attempt)
        for attempt in (1, 2, 3)
        for outcome in [judged(error, attempt=attempt, on=TimeoutError, max=3, delays=delays)[0]]
        if isinstance(outcome, RetryLater)
    ]
    reason = "TimeoutError: slow, given up after 4 deliveries"
    assert (DeadLetter(reason), "exception") == judged(error, attempt=4, on=TimeoutError, max=3, delays=delays)
    assert (Drop("retry", reason), "exception") == judged(error, attempt=4, max=3, then=Drop)


def test_any_other_exception_is_given_up_at_once() -> None:
    assert DeadLetter("KeyError: 'x'") == judged(KeyError("x"), on=(TimeoutError, OSError))[0]
    assert (
        DeadLetter("FileNotFoundError: x")
        == judged(FileNotFoundError("x"), on=OSError, give_up_on=FileNotFoundError)[0]
    )
    assert RetryLater(reason="PermissionError: x") == judged(PermissionError("x"), on=OSError)[0]


def test_a_batch_is_judged_by_the_cause_of_its_failure() -> None:
    error = BatchFailed(at=3)
    assert isinstance(judged(error, on=TimeoutError)[0], RetryLater)

    error.__cause__ = KeyError("x")
    assert isinstance(judged(error, on=TimeoutError)[0], DeadLetter)


def test_what_the_handler_asks_for_counts_too_and_its_own_delay_stands() -> None:
    assert RetryLater("5m") == judged(RetryLater("5m"), max=2, delays=["1s"])[0]
    assert RetryLater("1s", "busy") == judged(RetryLater(reason="busy"), max=2, delays=["1s"])[0]
    assert DeadLetter("busy, given up after 3 deliveries") == judged(RetryLater(reason="busy"), attempt=3, max=2)[0]


def test_no_further_try_is_made_once_a_message_is_too_old() -> None:
    error = TimeoutError("slow")

    assert isinstance(judged(error, within="1m", age_ms=60_000)[0], RetryLater)
    assert (
        DeadLetter("TimeoutError: slow, given up 60 s after it was sent")
        == judged(error, within="1m", age_ms=60_001)[0]
    )
