"""Invariant: a crash beside a gap that lasts repeats only messages that were done in the last seconds before it."""

from __future__ import annotations

from collections.abc import Iterator

from framework.testing.errors import Violation
from tests.simulation.checkers.disturbances import Disturbances
from tests.simulation.checkers.excuses import excuse
from tests.simulation.facts import Finished, Life, Said, Started
from tests.simulation.history import History
from tests.simulation.rare.core_marks import FOLDED

NAME = "a lasting gap is kept"
PATIENCE_S = 3.0
"""Two seconds of `auto`, and a flush."""
SLACK_S = 1.0
RECOVERED_S = 12.0
"""How long after a fault a record may still be missing: the next attempt to write it was put off meanwhile."""
HARMLESS = frozenset({"crash", "leave", "healed", "split-chunks", "joined-chunks"})
"""Faults that keep no member from writing a record, and none from reading it."""
SLOWING = frozenset(
    {
        "a store of progress is asked", "a store of progress has answered", "a store of progress fails",
        "ranges are to be written", "a connection is made", "a route is answered",
    }
)  # fmt: skip
"""Rare marks that put it off."""

Queue = tuple[str, str]
"""Group and queue."""


def a_lasting_gap_is_kept(history: History) -> Iterator[Violation]:
    """Where records are kept (`progress`), whoever takes over from a member that has crashed starts nothing that this
    one had finished above a gap more than three seconds before; also where they are kept from the first gap on.
    """
    harm = Disturbances(history, HARMLESS, RECOVERED_S, marks=SLOWING)
    slack_s = PATIENCE_S + SLACK_S + 2 * history.sync_s
    running: dict[str, dict[Queue, dict[int, float]]] = {}
    ended: dict[str, dict[Queue, dict[int, float]]] = {}
    kept: dict[Queue, dict[int, tuple[str, float]]] = {}
    for fact in history.facts:
        match fact:
            case Started() if fact.group in history.keeping:
                key = (fact.group, str(fact.queue))
                before = kept.get(key, {}).get(fact.offset)
                if before is not None and before[0] != fact.who and harm.touch(before[1], fact.at, before[0]):
                    excuse(history, NAME, "a fault kept its end from being stored, or from being read")
                elif before is not None and before[0] != fact.who and FOLDED in history.marks:
                    excuse(history, NAME, FOLDED)
                elif before is not None and before[0] != fact.who:
                    what = f"{fact.who} started {fact.offset} of {fact.queue} for {fact.group} again"
                    yield Violation(NAME, f"{what}; {before[0]} had finished it at {before[1]:.3f}s", fact.at)
                running.setdefault(fact.who, {}).setdefault(key, {})[fact.offset] = fact.at
            case Finished() if fact.group in history.keeping:
                key = (fact.group, str(fact.queue))
                running.get(fact.who, {}).get(key, {}).pop(fact.offset, None)
                if fact.is_ok:
                    ended.setdefault(fact.who, {}).setdefault(key, {})[fact.offset] = fact.at
            case Said(event="progress not kept"):
                running.pop(fact.who, None)
                ended.pop(fact.who, None)
            case Life(event="crashed"):
                for key, offsets in running.pop(fact.who, {}).items():
                    low = min(offsets, default=None)
                    mine = ended.get(fact.who, {}).get(key, {})
                    kept.setdefault(key, {}).update(
                        (offset, (fact.who, at))
                        for offset, at in mine.items()
                        if low is not None and offset > low and at < fact.at - slack_s
                    )
            case _:
                pass
