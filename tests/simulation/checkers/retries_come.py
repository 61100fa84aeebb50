"""Invariant: a retry comes no later than its delay says, as far as the broker decides it."""

from __future__ import annotations

from collections.abc import Iterator

from framework.model.delay_levels import FIRST_RETRY_LEVEL
from framework.testing.errors import Violation
from tests.simulation.checkers.disturbances import Disturbances
from tests.simulation.checkers.excuses import excuse
from tests.simulation.facts import Fault, Finished, SentBack
from tests.simulation.history import History

NAME = "retries come"
LATE_S = 0.05
CLOCK_S = 0.05
"""How far the broker's wall clock may be off, by which its messages are dated."""
HOLDS = ("broker-crash", "broker-power-cut", "broker-stop", "disk-full", "late-jobs")
"""Faults under which a broker's timers are late."""
RESTARTED_S = 3.0
"""By when a broker that is back has brought what fell due while it was away: what was late may be so still."""


def retries_come(history: History) -> Iterator[Violation]:
    """A retry is there on time: on the retry topic within 50 ms of its due time, and the disk's own time. What
    then becomes of it is a matter of pulls, of which `nothing pauses` tells. While the broker is held or away it is due
    when that may be over.
    """
    if not history.delays_ms:
        return
    holds = Disturbances(history, after_s=RESTARTED_S, only=HOLDS)
    is_set = any(fact.kind == "clock" and fact.who == "broker" for fact in history.of(Fault))
    asked: dict[tuple[str, str], list[float]] = {}
    for fact in history.of(SentBack):
        asked.setdefault((fact.group, fact.message_id), []).append(fact.at)
    wished: dict[tuple[str, str, int], set[int]] = {}
    """Levels that handlers asked for, where they did."""
    for end in history.of(Finished):
        if end.level:
            wished.setdefault((end.group, end.message_id, end.attempt + 1), set()).add(end.level)
    late_s = LATE_S + CLOCK_S + history.syncs_waited_for * history.sync_s
    for group, message_id, attempt, at in history.fired:
        steps = {attempt - 2, 0} if group in history.limited else {attempt - 2}
        levels = {min(FIRST_RETRY_LEVEL + step, len(history.delays_ms)) for step in steps}
        levels |= wished.get((group, message_id, attempt), set())
        dues = [
            when + history.delays_ms[level - 1] / 1000
            for when in asked.get((group, message_id), ())
            for level in levels
        ]
        before = [due for due in dues if due <= at + CLOCK_S]
        if not before or at <= max(before) + late_s:
            continue
        due = max(before)
        while (back := holds.until(due - late_s, due + late_s)) is not None and back > due:
            due = back
        if at <= due + late_s:
            continue
        if is_set:
            excuse(history, NAME, "the broker's clock was set, by which its messages are dated")
        else:
            what = f"retry {attempt - 1} of {message_id} for {group} was due at {due:.3f}s"
            yield Violation(NAME, f"{what} and came at {at:.3f}s", at)
