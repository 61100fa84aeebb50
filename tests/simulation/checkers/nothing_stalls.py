"""Invariant: no queue stands still for a minute, for no known reason, while messages wait in it."""

from __future__ import annotations

from collections.abc import Iterator

from framework.testing.errors import Violation
from tests.simulation.facts import Said
from tests.simulation.history import History

NAME = "nothing stalls"
MINUTE_MS = 60_000
"""In some runs members look out for less, which a group that is short of room or of workers may take."""


def nothing_stalls(history: History) -> Iterator[Violation]:
    """The members watch for that themselves, log it and start the queue's loop again, so that a run may still end well.
    What they know to be a reason (a handler that runs, a pause, a broker that is away) they do not log.
    """
    for fact in history.of(Said):
        if fact.event == "queue stalled" and fact.fields["stalled_ms"] >= MINUTE_MS:
            what = f"{fact.fields['queue']} of {fact.fields['group']}, {fact.fields['lag']} messages behind"
            yield Violation(NAME, f"{fact.who} found {what}, stalled for {fact.fields['stalled_ms']} ms", fact.at)
