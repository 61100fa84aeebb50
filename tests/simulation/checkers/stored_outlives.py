"""Invariant: what a broker has stored, and what it has answered, is there after each of its starts."""

from __future__ import annotations

from collections.abc import Iterator

from framework.testing.errors import Violation
from tests.simulation.facts import Forgotten
from tests.simulation.history import History

NAME = "stored outlives"


def stored_outlives(history: History) -> Iterator[Violation]:
    """What is stored outlives a broker, start by start: where each queue ends, topics, groups, offsets, resets and
    records of progress.

    What counts as stored: a commit that was answered, and whatever stood in a table while two groups of writes reached
    the disk after it (`promises.py`). So an offset that is written once only, and not again where that write failed, is
    found at the next start, though later commits were written. Messages are asked for by `acknowledged is stored`, and
    those that wait for their delay by `nothing lost`.
    """
    for fact in history.of(Forgotten):
        yield Violation(NAME, f"{fact.who}: {fact.what}", fact.at)
