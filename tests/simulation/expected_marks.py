"""The marks of the code: those that every CI run of the simulation must reach, and those that some thousand seeds do.

A mark that no seed reaches means a blind generator; one in neither list fails a test. What no run can reach has none.

A run's brokers, one or two, and their name server are one process, as in the built-in broker: they die together, and
are closed for writing apart.
"""

from __future__ import annotations

from tests.simulation.rare.core_marks import CAME_BACK, KEPT
from tests.simulation.rare.rare_marks import RARELY, STRETCHED

SOMETIMES: tuple[str, ...] = (
    CAME_BACK,
    KEPT,
    "a broker was kept that a name server left out",
    "a copy took the other road",
    "a half-open connection was closed",
    "a handler expired",
    "a lease was lost",
    "a lost notice was found by asking for the member list",
    "a message was parked",
    "a queue went on where its owner had been, beyond what its broker had stored",
    "a store of progress was put to use",
    "an address was left alone until its back-off was over",
    "broker: a request was intercepted",
    "broker: a send-back was repeated",
    "broker: the wall clock was set",
    "handlers still ran when the drain limit was over",
    "routes were refreshed in time",
)

SELDOM: dict[str, str] = {
    "a dead letter fails": "an orderly group must give up a message",
    "a dead letter is durable": "an orderly group must give up a message",
    "an offset is moved": "an administrator must ask a member, where brokers of 5.2 do it themselves",
}
"""Rare marks that some thousand seeds reach, not each three hundred."""
EXPECTED: tuple[str, ...] = (*SOMETIMES, *(mark for mark in (*STRETCHED, *RARELY) if mark not in SELDOM))
"""Of the rare marks a run draws a few: each must do what it does in some run."""
