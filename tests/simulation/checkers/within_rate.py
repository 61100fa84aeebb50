"""Invariant: a process starts no more messages of a group than its rate allows."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from framework.testing.errors import Violation
from tests.simulation.facts import Started
from tests.simulation.history import History

NAME = "within its rate"
WINDOW_S = 2.0
SLACK = 12
"""What was let go before and waits for a place, and a portion that was late."""


def within_rate(history: History) -> Iterator[Violation]:
    """In any two seconds, of groups with quick handlers. Retries count, too."""
    lately: dict[tuple[str, str], deque[float]] = {}
    for fact in history.of(Started):
        rate = history.rates.get(fact.group)
        if rate is None:
            continue
        starts = lately.setdefault((fact.who, fact.group), deque())
        starts.append(fact.at)
        while starts[0] < fact.at - WINDOW_S:
            starts.popleft()
        if len(starts) > rate * WINDOW_S + SLACK:
            what = f"{fact.who} started {len(starts)} messages of {fact.group} within {WINDOW_S:g} s"
            yield Violation(NAME, f"{what}, and {rate} a second may", fact.at)
            starts.clear()
