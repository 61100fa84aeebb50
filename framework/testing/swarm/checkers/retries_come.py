"""Invariant: a retry comes no later than its delay says, as far as the broker decides it."""

from __future__ import annotations

from collections.abc import Iterator

from framework.model.delay_levels import FIRST_RETRY_LEVEL
from framework.testing.errors import Violation
from framework.testing.swarm.history import Fault, History, SentBack

NAME = "retries come"
LATE_S = 0.05
CLOCK_S = 0.05
"""How far the broker's wall clock may be off, by which its messages are dated."""
SYNCS = 3
"""Of the disk: the copy's own, the one under way when it is due, and the one that brings it back."""
HOLDS = ("broker-crash", "broker-power-cut", "broker-stop", "late-jobs", "clock")
"""Faults under which a broker's timers are late, or its messages dated otherwise."""


def retries_come(history: History) -> Iterator[Violation]:
    """INVARIANTS R5, its upper bound: on the retry topic within 50 ms of its due time, and the disk's own time. What
    then becomes of it is a matter of pulls, of which `nothing pauses` tells.
    """
    if not history.delays_ms or any(fact.kind in HOLDS for fact in history.of(Fault)):
        return
    asked: dict[tuple[str, str], list[float]] = {}
    for fact in history.of(SentBack):
        asked.setdefault((fact.group, fact.message_id), []).append(fact.at)
    late_s = LATE_S + CLOCK_S + SYNCS * history.sync_s
    for group, message_id, attempt, at in history.fired:
        steps = {attempt - 2, 0} if group in history.limited else {attempt - 2}
        levels = {min(FIRST_RETRY_LEVEL + step, len(history.delays_ms)) for step in steps}
        dues = [
            when + history.delays_ms[level - 1] / 1000
            for when in asked.get((group, message_id), ())
            for level in levels
        ]
        before = [due for due in dues if due <= at + CLOCK_S]
        if before and at > max(before) + late_s:
            what = f"retry {attempt - 1} of {message_id} for {group} was due at {max(before):.3f}s"
            yield Violation(NAME, f"{what} and came at {at:.3f}s", at)
