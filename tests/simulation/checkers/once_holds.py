"""Invariant: with `once`, no message is handled whose key was handled lately, and no other one is dropped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from framework.testing.errors import Violation
from tests.simulation.checkers.excuses import excuse
from tests.simulation.facts import OK, Fault, Finished, Started
from tests.simulation.history import History, machine_of
from tests.simulation.ways.facts import Looked, Remembered, Repeated

NAME = "once holds"
CLOCK_S = 0.2
"""Members' clocks are off by up to 50 ms, and are set right once."""
EVERYBODYS = "everybody's"


@dataclass(slots=True)
class _Key:
    """What one process knows of one key."""

    may_start: bool = False
    """Its store was asked, and did not have it, or did not answer."""
    is_there: bool = False
    running: int = 0
    is_recorded: bool = False
    """Or the store could not, since the handler began."""


def once_holds(history: History) -> Iterator[Violation]:
    """docs/handlers.md, "Duplicates". A handler runs only after its store was asked and did not have the key, or did
    not answer; never for two messages of a key at once; its success is recorded before the message is done. And the
    store answers as it should: within `once`, and within its reach (the process, its machine, all members), it has
    what was recorded and nothing else.
    """
    if not history.once:
        return
    keys: dict[tuple[str, str, str], _Key] = {}
    stores = _Stores(history)
    for fact in history.facts:
        match fact:
            case Looked():
                key = keys.setdefault((fact.who, fact.group, fact.key), _Key())
                key.may_start, key.is_there = not fact.is_there, bool(fact.is_there)
                yield from stores.looked(fact)
            case Remembered():
                keys.setdefault((fact.who, fact.group, fact.key), _Key()).is_recorded = fact.keep_s is not None
                stores.remembered(fact)
            case Started() if fact.group in history.once:
                key = keys.setdefault((fact.who, fact.group, history.keys[fact.group, fact.message_id]), _Key())
                what = f"{fact.who} started {fact.message_id} for {fact.group}"
                if not key.may_start:
                    yield Violation(
                        NAME, f"{what}, and its store {'had it' if key.is_there else 'was not asked'}", fact.at
                    )
                if key.running:
                    yield Violation(NAME, f"{what} while it was at work on another message of its key", fact.at)
                key.may_start, key.is_recorded = False, False
                key.running += 1
            case Finished() if fact.group in history.once:
                key = keys.setdefault((fact.who, fact.group, history.keys[fact.group, fact.message_id]), _Key())
                key.running -= 1
                if fact.outcome == OK and not key.is_recorded:
                    what = f"{fact.who} was done with {fact.message_id} for {fact.group}"
                    yield Violation(NAME, f"{what} and had not recorded it", fact.at)
            case Repeated():
                key = keys.setdefault((fact.who, fact.group, history.keys[fact.group, fact.message_id]), _Key())
                if not key.is_there:
                    what = f"{fact.who} dropped {fact.message_id} for {fact.group} as a duplicate"
                    yield Violation(NAME, f"{what}, and its store did not have it", fact.at)
            case _:
                pass


@dataclass(slots=True)
class _Known:
    """What a store should know of one key."""

    since: float = 0.0
    """When it had recorded it last."""
    least: float = 0.0
    most: float = 0.0
    """Until when it keeps that, at least and at most."""
    asked: int = 0
    """To record it, and has not confirmed it: who asked may be dead, and it may have it."""


class _Stores:
    """What each store should answer, by its reach and the key."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._known: dict[tuple[str, str, str], _Known] = {}
        self._are_clocks_set = any(fact.kind == "clock" for fact in history.of(Fault))

    def remembered(self, fact: Remembered) -> None:
        known = self._of(fact)
        if fact.keep_s is None:
            known.asked += 1
        elif fact.keep_s:
            known.asked -= 1
            known.since, known.least = fact.at, max(known.least, fact.began + fact.keep_s - CLOCK_S)
            known.most = max(known.most, fact.at + fact.keep_s + CLOCK_S)

    def looked(self, fact: Looked) -> Iterator[Violation]:
        known = self._of(fact)
        what = f"the store of {fact.who} for {fact.group}"
        wrong = ""
        if fact.is_there is False and known.since <= fact.began and fact.at < known.least:
            wrong = f"{what} did not have {fact.key}, which was recorded until {known.least:.3f}s"
        elif fact.is_there and fact.began > known.most and not known.asked:
            wrong = f"{what} has {fact.key}, which was recorded until {known.most:.3f}s at most"
        if wrong and self._are_clocks_set:
            excuse(self._history, NAME, "clocks were set, by which keys are kept")
        elif wrong:
            yield Violation(NAME, wrong, fact.at)

    def _of(self, fact: Looked | Remembered) -> _Known:
        reach = self._history.once[fact.group]
        where = {"process": fact.who, "machine": machine_of(fact.who)}.get(reach, EVERYBODYS)
        return self._known.setdefault((where, fact.group, fact.key), _Known())
