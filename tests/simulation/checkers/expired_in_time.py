"""Invariant: a handler that exceeds its group's timeout is stopped then, not sooner and not much later."""

from __future__ import annotations

from collections.abc import Iterator

from framework.testing.errors import Violation
from tests.simulation.checkers.disturbances import Disturbances
from tests.simulation.checkers.excuses import excuse
from tests.simulation.facts import Finished, Started
from tests.simulation.history import History

NAME = "expired in time"
LATE_S = 0.1
HOLDS = frozenset({"stop", "block"})
"""Faults under which a process does nothing for a while, so that its timers are late, too."""


def expired_in_time(history: History) -> Iterator[Violation]:
    """A handler over its limit is given up: at the limit + 100 ms at the latest, counted from the handler's own
    start.
    """
    if not history.limits:
        return
    holds = Disturbances(history, only=HOLDS)
    begun: dict[tuple[str, str, str, int], list[float]] = {}
    """Several where a queue was moved back while a handler still ran."""
    for fact in history.facts:
        if type(fact) is Started and fact.group in history.limits:
            begun.setdefault((fact.who, fact.group, str(fact.queue), fact.offset), []).append(fact.at)
        elif type(fact) is Finished and fact.group in history.limits:
            limit, starts = history.limits[fact.group], begun[fact.who, fact.group, str(fact.queue), fact.offset]
            start = fact.since if fact.since in starts else starts[0 if fact.outcome == "expired" else -1]
            starts.remove(start)
            ran = fact.at - start
            said = f"{fact.who}: {fact.offset} of {fact.queue} for {fact.group}"
            if fact.outcome == "expired" and ran < limit:
                yield Violation(NAME, f"{said} was given up after {ran:.3f} s of {limit:g}", fact.at)
            elif ran > limit + LATE_S and holds.touch(fact.at - ran, fact.at, fact.who):
                excuse(history, NAME, "its process was held meanwhile")
            elif ran > limit + LATE_S:
                yield Violation(NAME, f"{said} ran {ran:.3f} s, and was to be given up after {limit:g}", fact.at)
