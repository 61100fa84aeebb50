"""Invariant: a broadcasting member's files say how far it has come, and its next life begins there."""

from __future__ import annotations

from collections.abc import Iterator

from framework.testing.errors import Violation
from tests.simulation.facts import Acquired, Finished, Life, Said, Saved
from tests.simulation.history import History, machine_of

NAME = "saved offsets hold"
Key = tuple[str, str, str]
"""Machine, group and queue."""


def saved_offsets_hold(history: History) -> Iterator[Violation]:
    """Groups whose offsets are files: each save covers finished messages only, none falls, and whoever begins on that
    machine begins exactly there; where nothing was saved, at the beginning. A process that takes a queue again, as when
    it subscribes anew, may know better than its file. Whoever leaves in a calm run has saved all that it had finished
    in front of the first message that still waits for a try.
    """
    ended: dict[Key, set[int]] = {}
    low: dict[Key, int] = {}
    saved: dict[Key, int] = {}
    taken: set[Key] = set()
    """By which process, group and queue."""
    for fact in history.facts if history.broadcasting else ():
        match fact:
            case Finished() if fact.group in history.broadcasting and fact.is_ok:
                ended.setdefault((machine_of(fact.who), fact.group, str(fact.queue)), set()).add(fact.offset)
            case Said(event="message dropped") if fact.fields["group"] in history.broadcasting:
                key = (machine_of(fact.who), fact.fields["group"], fact.fields["queue"])
                ended.setdefault(key, set()).add(fact.fields["offset"])
            case Acquired() if fact.group in history.broadcasting and not fact.is_moved:
                key = (machine_of(fact.who), fact.group, fact.queue)
                mine = (fact.who, fact.group, fact.queue)
                knows_better = mine in taken and saved.get(key, 0) <= fact.offset <= _gap(key, fact.offset, ended, low)
                taken.add(mine)
                if fact.offset != saved.get(key, 0) and not knows_better:
                    what = f"{fact.who} began {fact.queue} for {fact.group} at {fact.offset}"
                    yield Violation(NAME, f"{what}, and {saved.get(key, 0)} was saved", fact.at)
            case Saved() if fact.group in history.broadcasting:
                for queue, offset in fact.offsets.items():
                    key = (machine_of(fact.who), fact.group, queue)
                    if offset < saved.get(key, 0):
                        what = f"{fact.who} saved {offset} of {queue} for {fact.group}"
                        yield Violation(NAME, f"{what} after {saved[key]}", fact.at)
                    saved[key] = offset
                    gap = _gap(key, offset, ended, low)
                    if gap < offset:
                        what = f"{fact.who} saved {offset} of {queue} for {fact.group}"
                        yield Violation(NAME, f"{what}; {gap} is not finished", fact.at)
                        low[key] = offset  # one gap is one violation
            case Life(event="left") if history.is_calm:
                yield from _left(fact, saved, ended)
            case _:
                pass


def _left(fact: Life, saved: dict[Key, int], ended: dict[Key, set[int]]) -> Iterator[Violation]:
    for key, offset in sorted(saved.items()):
        machine, group, queue = key
        if machine == machine_of(fact.who) and offset in ended.get(key, ()):
            what = f"{fact.who} left, and {offset} of {queue} for {group}"
            yield Violation(NAME, f"{what}, which it had finished, will come again", fact.at)


def _gap(key: Key, offset: int, ended: dict[Key, set[int]], low: dict[Key, int]) -> int:
    """The first offset below this one that is not finished; this one where none is."""
    at, done = low.get(key, 0), ended.get(key, set())
    while at < offset and at in done:
        done.discard(at)
        at += 1
    low[key] = at
    return at
