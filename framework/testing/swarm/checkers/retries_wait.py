"""Invariant: a retry comes no sooner than its delay says."""

from __future__ import annotations

from collections.abc import Iterator

from framework.model.delay_levels import FIRST_RETRY_LEVEL
from framework.testing.errors import Violation
from framework.testing.swarm.checkers.excuses import excuse
from framework.testing.swarm.history import Fault, Finished, History, Started

NAME = "retries wait"
GRAIN_S = 0.002
"""Brokers count in whole milliseconds."""
SET_RIGHT_S = 0.052
"""The healing sets clocks right by so much, which brokers take for a clock that is slewed, and follow."""


def retries_wait(history: History) -> Iterator[Violation]:
    """INVARIANTS R5, its lower bound, for groups whose retries go by way of a broker; counted from the first failure.

    Where wall clocks are set nothing is said: a broker that restarts finds only dates in what waits there.
    """
    if not history.delays_ms:
        return
    set_at = min((fact.at for fact in history.of(Fault) if fact.kind == "clock"), default=float("inf"))
    healed_at = next((fact.at for fact in history.of(Fault) if fact.kind == "healed"), 0.0)
    in_place = set(history.orderly) | history.broadcasting
    failed: dict[tuple[str, str, int], float] = {}
    for fact in history.facts:
        if type(fact) is Finished and not fact.is_ok and fact.group not in in_place:
            failed.setdefault((fact.group, fact.message_id, fact.attempt), fact.at)
        elif type(fact) is Started and fact.attempt > 1 and fact.group not in in_place:
            before = failed.get((fact.group, fact.message_id, fact.attempt - 1))
            step = 0 if fact.group in history.limited else fact.attempt - 2
            level = min(FIRST_RETRY_LEVEL + step, len(history.delays_ms))
            delay_s = history.delays_ms[level - 1] / 1000
            grain_s = SET_RIGHT_S if before is not None and before < healed_at <= fact.at else GRAIN_S
            if before is None or fact.at >= before + delay_s - grain_s:
                continue
            if fact.at >= set_at:
                excuse(history, NAME, "clocks were set, and a restart finds only dates")
            else:
                what = f"{fact.who} started {fact.message_id} for {fact.group} for the {fact.attempt}th time"
                yield Violation(NAME, f"{what} {fact.at - before:.3f}s after it failed, and not {delay_s:g}s", fact.at)
