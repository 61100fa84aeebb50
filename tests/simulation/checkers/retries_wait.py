"""Invariant: a retry comes no sooner than its delay says."""

from __future__ import annotations

from collections.abc import Iterator

from framework.model.delay_levels import FIRST_RETRY_LEVEL
from framework.testing.errors import Violation
from tests.simulation.checkers.excuses import excuse
from tests.simulation.facts import Fault, Finished, Started
from tests.simulation.history import History

NAME = "retries wait"
GRAIN_S = 0.002
"""Brokers count in whole milliseconds."""
SET_RIGHT_S = 0.052
"""The healing sets clocks right by so much, which brokers take for a clock that is slewed, and follow."""


def retries_wait(history: History) -> Iterator[Violation]:
    """No retry comes early, for groups whose retries go by way of a broker; counted from the first failure.

    Where wall clocks are set nothing is said: a broker that restarts finds only dates in what waits there.
    """
    if not history.delays_ms:
        return
    set_at = min((fact.at for fact in history.of(Fault) if fact.kind == "clock"), default=float("inf"))
    healed_at = next((fact.at for fact in history.of(Fault) if fact.kind == "healed"), 0.0)
    in_place = set(history.orderly) | history.broadcasting
    due: dict[tuple[str, str, int], tuple[float, float]] = {}
    """Of each attempt: when it failed, and when the next one may come. The shortest way, where it failed twice."""
    for fact in history.facts:
        if type(fact) is Finished and not fact.is_ok and fact.group not in in_place:
            key = (fact.group, fact.message_id, fact.attempt + 1)
            then = (fact.at, fact.at + _delay_s(fact, history))
            due[key] = min(due.get(key, then), then, key=lambda each: each[1])
        elif type(fact) is Started and fact.attempt > 1 and fact.group not in in_place:
            failed_at, due_at = due.get((fact.group, fact.message_id, fact.attempt), (0.0, 0.0))
            grain_s = SET_RIGHT_S if failed_at < healed_at <= fact.at else GRAIN_S
            if fact.at >= due_at - grain_s:
                continue
            if fact.at >= set_at:
                excuse(history, NAME, "clocks were set, and a restart finds only dates")
            else:
                what = f"{fact.who} started {fact.message_id} for {fact.group} for the {fact.attempt}th time"
                took, asked = fact.at - failed_at, due_at - failed_at
                yield Violation(NAME, f"{what} {took:.3f}s after it failed, and not {asked:g}s", fact.at)


def _delay_s(fact: Finished, history: History) -> float:
    """What a message is asked to wait: by its handler, else by the number of its retry."""
    step = 0 if fact.group in history.limited else fact.attempt - 1
    level = fact.level or min(FIRST_RETRY_LEVEL + step, len(history.delays_ms))
    return history.delays_ms[level - 1] / 1000
