"""Invariant: each acquisition has an epoch of its own, higher than those before it (INVARIANTS O3 and section 0)."""

from __future__ import annotations

from collections.abc import Iterator

from framework.testing.errors import Violation
from framework.testing.swarm.history import Acquired, History, Started, machine_of


def epochs_fence(history: History) -> Iterator[Violation]:
    """Two acquisitions never share an epoch; one process's never fall. In order, nobody's do: a store that keeps the
    highest epoch refuses nothing of the owner and everything of those before. An epoch that is
    kept on a member's own disk is that machine's own.
    """
    lives: dict[tuple[str, str, str], int] = {}
    """Which acquisition of a queue this process is at."""
    owners: dict[tuple[str, str, str, int], tuple[str, int]] = {}
    highest: dict[tuple[str, str, str], int] = {}
    for fact in history.facts:
        if type(fact) is Acquired and not fact.is_moved:
            key = (fact.who, fact.group, fact.queue)
            lives[key] = lives.get(key, 0) + 1
        elif type(fact) is Started and fact.epoch is not None:
            queue = str(fact.queue)
            mine = (fact.who, lives.get((fact.who, fact.group, queue), 0))
            machine = machine_of(fact.who) if fact.group in history.keeping_local else ""
            owner = owners.setdefault((machine, fact.group, queue, fact.epoch), mine)
            said = f"{fact.who} started {fact.offset} of {queue} for {fact.group} in epoch {fact.epoch}"
            if owner != mine:
                yield Violation("epochs fence", f"{said}, which is that of an acquisition by {owner[0]}", fact.at)
            above = ("" if fact.group in history.orderly else fact.who, fact.group, queue)
            before = highest.get(above, -1)
            if fact.epoch < before:
                yield Violation("epochs fence", f"{said}, after {before}", fact.at)
            highest[above] = max(before, fact.epoch)
