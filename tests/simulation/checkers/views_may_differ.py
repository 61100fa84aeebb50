"""Invariant: members that see different members may both own a queue, but never in an orderly group."""

from __future__ import annotations

from collections.abc import Iterator

from framework.testing.errors import Violation
from tests.simulation.checkers.disturbances import Disturbances
from tests.simulation.checkers.excuses import excuse
from tests.simulation.checkers.little_moves import OF_PROCESSES
from tests.simulation.facts import Finished, Life, Started
from tests.simulation.history import History

NAME = "views may differ"
LEASE_S = 60.0
"""How long a broker keeps a lock: for so long a handler that began under one may go on after it."""
SPLIT = "split view"
"""The kind of fault by which one member is told a list of its own."""


def views_may_differ(history: History) -> Iterator[Violation]:
    """Members may see different lists, but no two processes' handlers are in one orderly queue at the same time.

    Asked of groups that divide their queues, where nobody stood still and nobody was cut off: a handler that runs while
    its lock is over cannot be ended, and the order (`order_kept`) and the epochs (`epochs_fence`) stand for those.
    """
    harm = Disturbances(history, OF_PROCESSES | {SPLIT}, LEASE_S)
    divided = history.orderly.keys() - history.broadcasting
    running: dict[tuple[str, str], dict[str, int]] = {}
    for fact in history.facts:
        match fact:
            case Started() if fact.group in divided:
                inside = running.setdefault((fact.group, str(fact.queue)), {})
                others = [who for who, count in inside.items() if count and who != fact.who]
                if others and harm.touch(fact.at, fact.at):
                    excuse(history, NAME, "somebody stood still, or was cut off, and could not know of its lock's end")
                elif others:
                    what = f"{fact.who} started {fact.offset} of {fact.queue} for {fact.group}"
                    yield Violation(NAME, f"{what} while {others[0]} was at it", fact.at)
                inside[fact.who] = inside.get(fact.who, 0) + 1
            case Finished() if fact.group in divided:
                inside = running[fact.group, str(fact.queue)]
                if fact.who in inside:  # else its process has ended meanwhile
                    inside[fact.who] -= 1
            case Life():
                for inside in running.values():
                    inside.pop(fact.who, None)
            case _:
                pass
