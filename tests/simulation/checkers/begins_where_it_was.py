"""Invariant: a new owner of a queue begins at its group's offset, whatever happened to the query for that offset."""

from __future__ import annotations

from collections.abc import Iterator

from framework.testing.errors import Violation
from tests.simulation.checkers.excuses import excuse
from tests.simulation.facts import Acquired, Committed, Finished, Remade, Reset
from tests.simulation.history import History

NAME = "begins where it was"
ASKED_S = 20.0
"""How long ago the offset may have been answered: the process was stopped meanwhile, or its line held the answer up."""


def begins_where_it_was(history: History) -> Iterator[Violation]:
    """INVARIANTS C4: a question that failed is no reset to the beginning or the end.

    What the broker has is looked at when the queue is taken. It may have been answered a little earlier, as what was
    stored before one of the commits since. Where nothing was stored then, it is the policy that says where to begin.
    A process that takes a queue again may go on where it had been itself, beyond what its broker has kept of that.
    """
    ended: dict[tuple[str, str, str], int] = {}
    """Process, group and queue -> the highest offset that it has done with."""
    commits: dict[tuple[str, str], list[Committed]] = {}
    moved: dict[str, float] = {}
    """Group or topic -> when an administrator last moved it or made it anew."""
    for fact in history.facts:
        match fact:
            case Committed():
                commits.setdefault((fact.group, str(fact.queue)), []).append(fact)
            case Finished() if fact.is_ok:
                own = fact.who, fact.group, str(fact.queue)
                ended[own] = max(ended.get(own, -1), fact.offset)
            case Reset():
                moved[fact.group] = fact.at
            case Remade():
                moved[fact.topic] = fact.at
            case Acquired(stored=int(stored), is_moved=False):
                topic = fact.queue.partition("@")[0]
                is_moved = fact.at < max(moved.get(fact.group, -ASKED_S), moved.get(topic, -ASKED_S)) + ASKED_S
                recent = [each for each in commits.get((fact.group, fact.queue), ()) if each.at > fact.at - ASKED_S]
                before = {each.before for each in recent}
                if fact.offset in {stored, *before, *(each.offset for each in recent)}:
                    continue
                if stored < fact.offset and stored <= ended.get((fact.who, fact.group, fact.queue), -1):
                    continue
                if is_moved:
                    excuse(history, NAME, "an administrator moved the group, or made the topic anew")
                elif None in before:
                    excuse(history, NAME, "nothing was stored yet when it may have asked")
                else:
                    what = f"{fact.who} began {fact.queue} for {fact.group} at {fact.offset}"
                    yield Violation(NAME, f"{what}, and {stored} was stored", fact.at)
            case _:
                pass
