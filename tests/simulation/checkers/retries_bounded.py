"""Invariant: no message is tried more often than its group allows, and only a message without tries left is dead."""

from __future__ import annotations

from collections.abc import Iterator

from framework.testing.errors import Violation
from tests.simulation.facts import BURIED, Finished, Started
from tests.simulation.history import History

NAME = "retries are bounded"


def retries_bounded(history: History) -> Iterator[Violation]:
    """Attempt numbers stay within `max_retries` + 1; a dead letter has failed at the last one,
    and at each one before. In order and in place they are counted anew by each owner. What a handler has called a dead
    letter is one from that attempt on.
    """
    failed: dict[tuple[str, str], set[int]] = {}
    buried: dict[tuple[str, str], int] = {}
    last = history.max_retries + 1
    for fact in history.facts:
        if type(fact) is Started and fact.attempt > last:
            yield Violation(NAME, f"{fact.group} started {fact.message_id} for the {fact.attempt}th time; "
                            f"max_retries is {history.max_retries}", fact.at)  # fmt: skip
        elif type(fact) is Finished and not fact.is_ok:
            failed.setdefault((fact.group, fact.message_id), set()).add(fact.attempt)
            if fact.outcome == BURIED:
                before = buried.setdefault((fact.group, fact.message_id), fact.attempt)
                buried[fact.group, fact.message_id] = min(before, fact.attempt)
    end = history.facts[-1].at if history.facts else 0.0
    for group, message_id in sorted(history.dead_letters):
        tries = failed.get((group, message_id), set())
        final = buried.get((group, message_id), last)
        missing = {final} if group in history.orderly else set(range(1, final + 1))
        if not missing <= tries:
            lacking = ", ".join(map(str, sorted(missing - tries)))
            yield Violation(NAME, f"{message_id} is a dead letter of {group} and had tries left: {lacking}", end)
