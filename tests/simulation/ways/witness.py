"""Witness: a plugin that writes down how deliveries end, where what a handler returned is not yet their end.

A handler with `once` is not run for a duplicate; what a handler with `@publishes` returned is sent before its message
is done, and that may fail. The program calls plugins after that.
"""

from __future__ import annotations

from collections.abc import Collection

from framework.hooks import hookimpl
from framework.model.delivery import Delivery
from framework.model.outcome import Ack, DeadLetter, Drop, Outcome, RetryLater, Suspend
from tests.simulation.facts import BURIED, DROPPED, FAILED, LEVEL, OK
from tests.simulation.recorder import Recorder
from tests.simulation.ways.once import note_key
from tests.simulation.ways.results import LEVELS
from tests.simulation.workload import GroupLoad

BY_ONCE = "once"


class Witness:
    """Of these groups; the other ones' handlers say themselves how they end."""

    def __init__(self, recorder: Recorder, loads: Collection[GroupLoad]) -> None:
        self._recorder, self._loads = recorder, {load.name: load for load in loads}

    @hookimpl
    def after_consume(self, delivery: Delivery, outcome: Outcome, elapsed_ms: float, kind: str) -> None:
        load = self._loads.get(delivery.group)
        if load is None:
            return
        if load.once_s:
            note_key(self._recorder, load, delivery.message)
        if isinstance(outcome, Drop) and outcome.by == BY_ONCE:
            self._recorder.repeated(delivery.group, delivery.message)
        else:
            self._recorder.finished(delivery.group, delivery.message, _meaning(outcome))


def _meaning(outcome: Outcome) -> str:
    match outcome:
        case Ack():
            return OK
        case Drop():
            return DROPPED
        case DeadLetter():
            return BURIED
        case RetryLater(delay=wish) | Suspend(pause=wish) if wish in LEVELS:
            return f"{LEVEL}{LEVELS[str(wish)]}"
        case _:
            return FAILED
