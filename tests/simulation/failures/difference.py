"""Where two runs part: the first event that differs between one that fails and one that holds.

Owns the comparison and its words. Runs nothing and judges nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import zip_longest

from tests.simulation.facts import Fact, Fault
from tests.simulation.history import History
from tests.simulation.timeline import describe

FIELDS_MAX = 160


@dataclass(frozen=True, slots=True)
class Event:
    """A fact in words."""

    at: float
    who: str
    what: str
    is_fault: bool = False

    def __str__(self) -> str:
        return f"{self.at:.3f}s {self.who}: {self.what}"

    def is_like(self, other: Event) -> bool:
        """The same event, whenever it happened."""
        return self.who == other.who and self.what == other.what


@dataclass(frozen=True, slots=True)
class Difference:
    """One place where two runs differ; None on the side that has nothing more."""

    failing: Event | None
    holding: Event | None

    @property
    def at(self) -> float:
        return min(each.at for each in (self.failing, self.holding) if each is not None)


def events(history: History) -> list[Event]:
    """A run in words, fact by fact; what was common and well is there too."""
    return [Event(fact.at, fact.who, _words(fact), type(fact) is Fault) for fact in history.facts]


def first_difference(failing: Sequence[Event], holding: Sequence[Event]) -> Difference | None:
    """The first event that happened in one run and not, then or there, in the other; None for two equal runs."""
    for ours, theirs in zip_longest(failing, holding):
        if ours != theirs:
            return Difference(ours, theirs)
    return None


def first_consequence(failing: Sequence[Event], holding: Sequence[Event]) -> Difference | None:
    """The first event that differs and is no fault, process by process and without regard to when it happened.

    A fault that was left out is the first difference; this is what it did. Two processes may take turns otherwise
    from there on, which changes nothing for either.
    """
    ours, theirs = _by_process(failing), _by_process(holding)
    found = []
    for who in sorted(ours.keys() | theirs.keys()):
        for one, other in zip_longest(ours.get(who, ()), theirs.get(who, ())):
            if one is None or other is None or not one.is_like(other):
                found.append(Difference(one, other))
                break
    return min(found, key=lambda difference: difference.at, default=None)


def _by_process(run: Sequence[Event]) -> dict[str, list[Event]]:
    by_process: dict[str, list[Event]] = {}
    for event in run:
        if not event.is_fault:
            by_process.setdefault(event.who, []).append(event)
    return by_process


def _words(fact: Fact) -> str:
    told = describe(fact)
    if told is not None:
        return told
    shown = [(each.name, getattr(fact, each.name)) for each in fields(fact) if each.name not in {"at", "who"}]
    text = " ".join(f"{name}={value}" for name, value in shown if value not in (None, "", False))
    return f"{type(fact).__name__.lower()} {text}"[:FIELDS_MAX].rstrip()
