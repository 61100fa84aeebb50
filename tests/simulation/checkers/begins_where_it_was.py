"""Invariant: a new owner of a queue begins at its group's offset, whatever happened to the query for that offset."""

from __future__ import annotations

from collections.abc import Iterator

from framework.testing.errors import Violation
from tests.simulation.checkers.excuses import excuse
from tests.simulation.checkers.room_again import Rooms
from tests.simulation.facts import Acquired, Committed, Copied, Fact, Finished, PassedOver, Remade, Reset, Skipped
from tests.simulation.history import History
from tests.simulation.ways.facts import Repeated

NAME = "begins where it was"
ASKED_S = 20.0
"""How long ago the offset may have been answered: the process was stopped meanwhile, or its line held the answer up."""


def begins_where_it_was(history: History) -> Iterator[Violation]:
    """An offset that could not be asked for is no reset to the beginning or the end.

    What the broker has is looked at when the queue is taken. It may have been answered a little earlier, as what was
    stored before one of the commits since. Where nothing was stored then, it is the policy that says where to begin.
    A process that takes a queue again may go on where it had been itself, beyond what its broker has kept of that: it
    is done with each message between the two.
    """
    done = _Done(history)
    commits: dict[tuple[str, str], list[Committed]] = {}
    moved: dict[str, float] = {}
    """Group or topic -> when an administrator last moved it or made it anew."""
    for fact in history.facts:
        done.hear(fact)
        match fact:
            case Committed():
                commits.setdefault((fact.group, str(fact.queue)), []).append(fact)
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
                if stored < fact.offset and done.reaches(fact, stored):
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


class _Done:
    """What each process is done with: handled well, failed and the copy stored, or never given to a handler by rule."""

    def __init__(self, history: History) -> None:
        self._unwanted = history.passed_by
        self._done: dict[tuple[str, str, str], set[int]] = {}
        """Process, group and queue -> offsets."""
        self._failed: dict[tuple[str, str, str], dict[int, str]] = {}
        """The same -> offset -> message whose copy must be on a broker."""
        self._copied: set[tuple[str, str]] = set()
        self._rooms = Rooms()

    def hear(self, fact: Fact) -> None:
        self._rooms.hear(fact)
        match fact:
            case Finished() if not fact.is_ok:
                self._failed.setdefault((fact.who, fact.group, str(fact.queue)), {})[fact.offset] = fact.message_id
            case Finished() | Repeated():
                self._add(fact, fact.offset)
            case Skipped():
                self._add(fact, *range(fact.begin, fact.end))
            case PassedOver():
                self._add(fact, *fact.offsets)
            case Copied():
                self._copied.add((fact.group, fact.message_id))
            case _:
                pass

    def _add(self, fact: Finished | Repeated | Skipped | PassedOver, *offsets: int) -> None:
        self._done.setdefault((fact.who, fact.group, str(fact.queue)), set()).update(offsets)

    def reaches(self, fact: Acquired, stored: int) -> bool:
        """Whether the process is done with everything from what is stored to where it begins."""
        own = fact.who, fact.group, fact.queue
        done = self._done.get(own, set()) | self._unwanted.get((fact.group, fact.queue), set())
        failed = self._failed.get(own, {})
        kept = self._copied | self._rooms.unseen
        return all(
            offset in done or (fact.group, failed.get(offset, "")) in kept for offset in range(stored, fact.offset)
        )
