"""Invariant: no loop, task or process ends with an unforeseen error, whatever happens around it."""

from __future__ import annotations

from collections.abc import Iterator

from framework.testing.errors import Violation
from tests.simulation.facts import Unexpected
from tests.simulation.history import History

NAME = "nothing unexpected"


def nothing_unexpected(history: History) -> Iterator[Violation]:
    """Supervision would start most of them again; the error is a mistake of ours all the same."""
    for fact in history.of(Unexpected):
        yield Violation(NAME, f"{fact.who}: {fact.what}", fact.at)
