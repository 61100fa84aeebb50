"""Counts: what became of messages."""

from __future__ import annotations

import pytest

from framework.core.retry import SendBack, Settle, decide
from framework.model.outcome import Ack, DeadLetter, Drop, Kind, RetryLater, Suspend
from framework.services.pool.run import MessageCounts


@pytest.mark.parametrize("event", ["handled", "dead_lettered", "dropped"])
def test_an_event_is_counted_under_its_name(event: str) -> None:
    counts = MessageCounts()

    counts.add(event)
    counts.add(event)
    assert 2 == getattr(counts, event)
    assert 2 == sum(getattr(counts, name) for name in MessageCounts.__slots__)


def test_a_retry_is_counted_as_retried() -> None:
    counts = MessageCounts()

    counts.add("retry")
    assert 1 == counts.retried


@pytest.mark.parametrize("outcome", [Ack(), Drop("x"), DeadLetter(), RetryLater(), Suspend()], ids=repr)
@pytest.mark.parametrize("attempt", [1, 17])
def test_every_decision_can_be_counted(outcome: Ack | Drop | DeadLetter | RetryLater | Suspend, attempt: int) -> None:
    decision: Settle | SendBack = decide(outcome, attempt, 16)

    counts = MessageCounts()
    counts.add(decision.event)
    assert 1 == sum(getattr(counts, name) for name in MessageCounts.__slots__)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("failed", "failed"),
        ("exception", "raised"),
        ("nothing", "nothing"),
        ("timed_out", "timed_out"),
        ("success", ""),
    ],
)
def test_kinds_of_ends_are_counted_where_they_are_not_plain_success(kind: Kind, name: str) -> None:
    counts = MessageCounts()

    counts.add_kind(kind)
    expected = {name: 1} if name else {}
    assert expected == {each: getattr(counts, each) for each in MessageCounts.__slots__ if getattr(counts, each)}


def test_an_unknown_event_is_a_bug() -> None:
    with pytest.raises(AssertionError, match="no such event: 'lost'"):
        MessageCounts().add("lost")
