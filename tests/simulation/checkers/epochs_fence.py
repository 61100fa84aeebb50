"""Invariant: each acquisition has an epoch of its own, higher than those before it."""

from __future__ import annotations

from collections.abc import Iterator

from framework.testing.errors import Violation
from tests.simulation.checkers.excuses import excuse
from tests.simulation.facts import Acquired, Started
from tests.simulation.history import History, machine_of
from tests.simulation.ways.facts import Looked

NAME = "epochs fence"
ASKED_BEFORE = "its store of keys was asked before the queue was taken anew"


def epochs_fence(history: History) -> Iterator[Violation]:
    """Two acquisitions never share an epoch; one process's never fall. In order, nobody's do: a store that keeps the
    highest epoch refuses nothing of the owner and everything of those before. An epoch that is
    kept on a member's own disk is that machine's own.

    A delivery has the epoch that its queue had when it was made. With `once` its store is asked then, and its handler
    may begin after the queue was taken anew.
    """
    lives: dict[tuple[str, str, str], int] = {}
    """Which acquisition of a queue this process is at."""
    taken: dict[tuple[str, str, str], float] = {}
    owners: dict[tuple[str, str, str, int], tuple[str, int]] = {}
    highest: dict[tuple[str, str, str], int] = {}
    since: dict[tuple[str, str, str], float] = {}
    """When the first handler began in the highest."""
    asked: dict[tuple[str, str, str], float] = {}
    """(process, group, key) -> when its store was asked for it last."""
    for fact in history.facts:
        if type(fact) is Acquired and not fact.is_moved:
            key = (fact.who, fact.group, fact.queue)
            lives[key] = lives.get(key, 0) + 1
            taken[key] = fact.at
        elif type(fact) is Looked:
            asked[fact.who, fact.group, fact.key] = fact.began
        elif type(fact) is Started and fact.epoch is not None:
            queue = str(fact.queue)
            mine = (fact.who, lives.get((fact.who, fact.group, queue), 0))
            machine = machine_of(fact.who) if fact.group in history.keeping_local else ""
            owner = owners.setdefault((machine, fact.group, queue, fact.epoch), mine)
            known_by = history.keys.get((fact.group, fact.message_id), "")
            began = asked.get((fact.who, fact.group, known_by), fact.at)
            said = f"{fact.who} started {fact.offset} of {queue} for {fact.group} in epoch {fact.epoch}"
            if owner[0] == fact.who and began < taken.get((fact.who, fact.group, queue), began):
                excuse(history, NAME, ASKED_BEFORE)
                continue
            if owner != mine:
                yield Violation(NAME, f"{said}, which is that of an acquisition by {owner[0]}", fact.at)
            above = ("" if fact.group in history.orderly else fact.who, fact.group, queue)
            before = highest.get(above, -1)
            if fact.epoch > before:
                highest[above], since[above] = fact.epoch, fact.at
            elif fact.epoch < before:
                if began < since[above]:
                    excuse(history, NAME, ASKED_BEFORE)
                else:
                    yield Violation(NAME, f"{said}, after {before}", fact.at)
