"""Invariant: a request is answered at most once, on the connection it came by."""

from __future__ import annotations

from collections.abc import Iterator

from framework.testing.errors import Violation
from tests.simulation.facts import Strange
from tests.simulation.history import History

NAME = "one answer a request"


def one_answer_a_request(history: History) -> Iterator[Violation]:
    """As the wire saw it. An answer too late for its time-out is still its first."""
    for fact in history.of(Strange):
        yield Violation(NAME, f"{fact.who} sent {fact.what}", fact.at)
