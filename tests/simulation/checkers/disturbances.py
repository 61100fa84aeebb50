"""When faults are under way, and to whom: what truths that hold in calm hours go by, also within a faulty run.

A fact of a fault says when it began. How long it acts at most is drawn in `faults/`; the bounds stand here, and a kind
that is not listed acts until everything is healed.
"""

from __future__ import annotations

from collections.abc import Collection

from tests.simulation.facts import Bent, Fault
from tests.simulation.history import History, machine_of
from tests.simulation.rare.rare_marks import SECONDS

LASTS_S: dict[str, float] = {
    "crash": 6.0,
    "power-cut": 6.0,
    "desk-crash": 5.0,
    "stop": 8.0,
    "block": 5.0,
    "leave": 12.0,
    "late-jobs": 9.0,  # the last job that it delays begins up to 3 s after its end
    "clock": 0.0,
    "broker-crash": 3.0,
    "broker-power-cut": 3.0,
    "broker-stop": 4.0,
    "cut": 12.0,
    "cut-one-way": 12.0,
    "slow": 10.0,
    "refuse": 4.0,
    "swizzle-clog": 12.0,
    "wipe-write-permission": 5.0,
    "more-queues": 0.0,
    "code-storm": 5.0,
    "fewer-queues": 8.0,
    "offsets-reset": 0.0,
    "topic-remade": 4.0,
    "broker-permission": 15.0,
    "retry-permission": 15.0,
    "no-retry-queues": 15.0,
    "bad-deploy": 35.0,  # 20 s, and until a message is tried after it
    "pause": 10.0,
    "resize": 10.0,
    "live-edit": 10.0,
    "subscribe-anew": 0.0,
    "unsubscribe": 12.0,
    "one-broker-restart": 6.0,
    "partial-route": 25.0,
    "damaged-records": 8.0,
    "disk-full": 9.0,
    "consume-mode": 0.0,
    "healed": 0.0,
}
"""The longest that each kind draws."""
UNHEALED = ("stop", "block", "broker-stop", "leave", "late-jobs")
"""Kinds that healing does not end: a stopped process is not woken, and one that leaves comes back in its own time."""
FOR_EVER = float("inf")


class Disturbances:
    """The faults of a run, each with its span: all but the `harmless` ones, or `only` those of these kinds."""

    def __init__(
        self,
        history: History,
        harmless: Collection[str] = (),
        after_s: float = 0.0,
        *,
        only: Collection[str] | None = None,
        marks: Collection[str] = (),
    ) -> None:
        """`after_s` is how long it takes until what a fault has done is over, once it has ended. Of the code's rare
        marks these `marks` count as faults.
        """
        healed = next((fact.at for fact in history.of(Fault) if fact.kind == "healed"), FOR_EVER)
        self._spans = [
            (fact.at, _over(fact, healed) + after_s, fact.who)
            for fact in history.of(Fault)
            if fact.kind not in harmless and (only is None or fact.kind in only)
        ]
        self._spans += [
            (fact.at, fact.at + max(SECONDS) + after_s, fact.who) for fact in history.of(Bent) if fact.mark in marks
        ]

    def until(self, begin: float, end: float, who: str = "") -> float | None:
        """When the last of those that were under way between these two instants is over; None where none was.

        With `who`, a life of a process, those that were done to other applications do not count.
        """
        spans = [
            over
            for since, over, whom in self._spans
            if since <= end and begin <= over and not (who and _is_another(machine_of(whom), machine_of(who)))
        ]
        return max(spans) if spans else None

    def touch(self, begin: float, end: float, who: str = "") -> bool:
        """Whether any was under way between these two instants."""
        return self.until(begin, end, who) is not None


def _over(fact: Fault, healed: float) -> float:
    longest = fact.at + LASTS_S.get(fact.kind, FOR_EVER)
    return longest if fact.kind in UNHEALED else min(longest, max(healed, fact.at))


def _is_another(struck: str, machine: str) -> bool:
    return struck.startswith("app-") and struck != machine
