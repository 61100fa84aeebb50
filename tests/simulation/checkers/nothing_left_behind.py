"""Invariant: an application that has left in order leaves nothing: no task, no timer, no connection."""

from __future__ import annotations

from collections.abc import Iterator

from framework.testing.errors import Violation
from tests.simulation.facts import LeftBehind
from tests.simulation.history import History

NAME = "nothing is left behind"


def nothing_left_behind(history: History) -> Iterator[Violation]:
    """Asked when `App.run` returns. In a program that goes on after it, what is left would live for ever."""
    for fact in history.of(LeftBehind):
        if fact.what:
            yield Violation(NAME, f"{fact.who} left {'; '.join(fact.what[:5])}, {len(fact.what)} in all", fact.at)
