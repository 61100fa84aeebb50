"""Outcomes: a bad one is an error of the handler that wrote it, and of no loop."""

from __future__ import annotations

import pytest

from framework.model.outcome import Ack, DeadLetter, Drop, RetryLater, Suspend


@pytest.mark.parametrize("delay", [None, "30s", "1h30m", 0, 2.5])
def test_a_retry_takes_a_delay_or_none(delay: str | float | None) -> None:
    assert delay == RetryLater(delay).delay


@pytest.mark.parametrize("delay", ["soon", "30", "", -1, "400d"])
def test_a_bad_delay_raises_where_it_is_written(delay: str | float) -> None:
    with pytest.raises(ValueError, match=r"not a duration|outside 0 to 366d"):
        RetryLater(delay)
    with pytest.raises(ValueError, match=r"not a duration|outside 0 to 366d"):
        Suspend(delay)


def test_outcomes_are_values() -> None:
    assert Ack() == Ack()
    assert RetryLater("30s", "busy") == RetryLater("30s", reason="busy")
    assert DeadLetter("poison") != DeadLetter()
    assert Drop("sampling", "not today") == Drop(by="sampling", reason="not today")
    assert Suspend() == Suspend(1.0)
