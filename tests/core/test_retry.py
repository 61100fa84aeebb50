"""What becomes of a delivery that was not plain success."""

from __future__ import annotations

import pytest

from framework.core import limits
from framework.core.retry import (
    Decision,
    SendBack,
    Settle,
    Stay,
    cut_short,
    decide,
    decide_in_order,
    outcome_of,
)
from framework.errors import BodyUndecodable
from framework.model import delay_levels
from framework.model.outcome import Ack, DeadLetter, Drop, Outcome, RetryLater, Suspend


@pytest.mark.parametrize(
    ("expected", "result"),
    [
        (Ack(), None),
        (Ack(), Ack()),
        (Ack(), True),
        (Ack(), 0),
        (Ack(), "done"),
        (RetryLater("30s"), RetryLater("30s")),
        (DeadLetter("bad"), DeadLetter("bad")),
        (Suspend("2s"), Suspend("2s")),
        (Drop("filter"), Drop("filter")),
        (RetryLater(reason="ValueError: no such order"), ValueError("no such order")),
        (RetryLater(reason="TimeoutError: "), TimeoutError()),
        (DeadLetter(reason="truncated at 3"), BodyUndecodable("truncated at 3")),
    ],
)
def test_what_a_handler_returned_or_raised_has_one_name(expected: Outcome, result: object) -> None:
    """A value that is no outcome is success: handlers may return anything, and often return what they wrote."""
    assert expected == outcome_of(result)


@pytest.mark.parametrize(
    ("expected", "outcome", "attempt"),
    [
        (Settle("handled"), Ack(), 1),
        (Settle("handled"), Ack(), 99),
        (Settle("dropped"), Drop("sampling", "not today"), 1),
        (SendBack(-1, "dead_lettered", "poison"), DeadLetter("poison"), 1),
        (SendBack(0, "retry", "again"), RetryLater(reason="again"), 1),
        (SendBack(0, "retry", "again"), RetryLater(reason="again"), 16),
        (SendBack(-1, "dead_lettered", "again"), RetryLater(reason="again"), 17),
        (SendBack(6, "retry", ""), RetryLater("90s"), 1),
        (SendBack(1, "retry", ""), RetryLater(0), 1),
        (SendBack(4, "retry", ""), RetryLater(30), 5),
        (SendBack(18, "retry", ""), RetryLater("3h"), 5),
        (SendBack(-1, "dead_lettered", ""), RetryLater("90s"), 17),
        (SendBack(1, "retry", "suspended"), Suspend(), 1),
        (SendBack(3, "retry", "suspended"), Suspend("8s"), 1),
    ],
)
def test_outcome_and_attempt_decide(expected: Decision, outcome: Outcome, attempt: int) -> None:
    assert expected == decide(outcome, attempt, 16)


def test_a_message_that_always_fails_is_delivered_max_retries_and_once_more() -> None:
    """`max_retries: 16` means 17 deliveries; the broker chooses each retry's level by its count."""
    deliveries = 0
    decision: Decision = SendBack(delay_levels.BY_ATTEMPT, "retry", "")
    while decision == SendBack(delay_levels.BY_ATTEMPT, "retry", ""):
        deliveries += 1
        decision = decide(RetryLater(), deliveries, limits.MAX_RETRIES)

    assert 17 == deliveries
    assert SendBack(delay_levels.TO_DEAD_LETTERS, "dead_lettered", "") == decision


def test_without_retries_the_first_failure_is_a_dead_letter() -> None:
    assert SendBack(-1, "dead_lettered", "") == decide(RetryLater(), 1, 0)


def test_a_suspended_message_has_a_retrys_attempts() -> None:
    """The broker counts them alike: called a retry here, it would be a dead letter there and counted wrongly."""
    assert SendBack(1, "retry", "suspended") == decide(Suspend(), 16, 16)
    assert SendBack(-1, "dead_lettered", "suspended") == decide(Suspend(), 17, 16)


UNLIMITED = limits.MAX_RETRIES_IN_ORDER


@pytest.mark.parametrize(
    ("expected", "outcome", "attempt", "max_retries"),
    [
        (Settle("handled"), Ack(), 1, UNLIMITED),
        (Settle("dropped"), Drop("filter"), 1, UNLIMITED),
        (Stay(1_000, "ValueError: x"), RetryLater(reason="ValueError: x"), 1, UNLIMITED),
        (Stay(1_000, "suspended"), RetryLater(), 1_000_000, UNLIMITED),
        (Stay(2_000, "suspended"), Suspend("2s"), 1, UNLIMITED),
        (Stay(10, "suspended"), Suspend("1ms"), 1, UNLIMITED),
        (Stay(30_000, "card"), RetryLater("90s", reason="card"), 1, UNLIMITED),
        (Stay(1_000, "suspended"), Suspend(), 2, 2),
        (SendBack(-1, "dead_lettered", "suspended"), Suspend(), 3, 2),
        (SendBack(-1, "dead_lettered", "ValueError: x"), RetryLater(reason="ValueError: x"), 3, 2),
        (SendBack(-1, "dead_lettered", "suspended"), RetryLater(), 1, 0),
        (SendBack(-1, "dead_lettered", "bad"), DeadLetter("bad"), 1, UNLIMITED),
    ],
)
def test_in_order_a_retry_is_a_pause_in_place(
    expected: object, outcome: Outcome, attempt: int, max_retries: int
) -> None:
    """Java's default pause, and its bounds: 10 ms to 30 s."""
    assert expected == decide_in_order(outcome, attempt, max_retries)


@pytest.mark.parametrize(
    ("outcome", "wish_ms"),
    [
        (RetryLater("2h"), None),
        (RetryLater("2h1ms"), 7_200_001),
        (Suspend("3h"), 10_800_000),
        (RetryLater(), None),
        (Suspend(), None),
        (DeadLetter("why"), None),
    ],
    ids=str,
)
def test_a_delay_that_no_level_has_is_known(outcome: Outcome, wish_ms: int | None) -> None:
    assert wish_ms == cut_short(outcome)
