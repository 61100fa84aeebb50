"""Counts: what became of messages."""

from __future__ import annotations

import pytest

from framework.core.retry import SendBack, Settle, decide
from framework.model.outcome import Ack, DeadLetter, Drop, RetryLater, Suspend
from framework.services.work import Counts


@pytest.mark.parametrize("event", ["handled", "dead_lettered", "dropped"])
def test_an_event_is_counted_under_its_name(event: str) -> None:
    counts = Counts()

    counts.add(event)
    counts.add(event)
    assert 2 == getattr(counts, event)
    assert 2 == sum(getattr(counts, name) for name in Counts.__slots__)


def test_a_retry_is_counted_as_retried() -> None:
    counts = Counts()

    counts.add("retry")
    assert "<Counts abandoned=0 dead_lettered=0 dropped=0 handled=0 late=0 retried=1>" == repr(counts)


@pytest.mark.parametrize("outcome", [Ack(), Drop("x"), DeadLetter(), RetryLater(), Suspend()], ids=repr)
@pytest.mark.parametrize("attempt", [1, 17])
def test_every_decision_can_be_counted(outcome: Ack | Drop | DeadLetter | RetryLater | Suspend, attempt: int) -> None:
    decision: Settle | SendBack = decide(outcome, attempt, 16)

    counts = Counts()
    counts.add(decision.event)
    assert 1 == sum(getattr(counts, name) for name in Counts.__slots__)


def test_an_unknown_event_is_a_bug() -> None:
    with pytest.raises(AssertionError, match="no such event: 'lost'"):
        Counts().add("lost")
