"""Invariant: when all members start at once, their queues soon stay where they are, and are not passed round before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from framework.testing.errors import Violation
from tests.simulation.facts import Acquired, Fault, Reassigned
from tests.simulation.history import History

NAME = "no storm"
STORM = "everybody starts"
"""The kind of fault after which this is asked; its detail is within how many seconds they do."""
SETTLED_S = 5.0
MOVES_MAX = 2


def no_storm(history: History) -> Iterator[Violation]:
    """Members that all start at once: settled within five seconds of the last start, and each queue moved at most twice
    after it was first taken.
    """
    storms = [fact for fact in history.of(Fault) if fact.kind == STORM]
    for number, storm in enumerate(storms):
        until = storms[number + 1].at if number + 1 < len(storms) else float("inf")
        taken: Counter[tuple[str, str]] = Counter()
        for fact in history.facts:
            if not storm.at < fact.at < until:
                continue
            if isinstance(fact, Acquired) and not fact.is_moved and not fact.queue.startswith("%"):
                taken[fact.group, fact.queue] += 1
            if isinstance(fact, Reassigned) and fact.at > storm.at + float(storm.detail) + SETTLED_S:
                moved = ", ".join(fact.gained + fact.lost)
                yield Violation(NAME, f"{fact.who} was still to give or take {moved}", fact.at)
        for (group, queue), times in sorted(taken.items()):
            if times > 1 + MOVES_MAX:
                yield Violation(NAME, f"{queue} of {group} moved {times - 1} times", storm.at)
