"""Truth: no message is tried more often than its group allows, and only messages whose tries are used up are dead."""

from __future__ import annotations

from collections.abc import Iterator

from framework.testing.errors import Violation
from framework.testing.history import Finished, History, Started

NAME = "retries are bounded"


def retries_bounded(history: History) -> Iterator[Violation]:
    """INVARIANTS R1 and R6: attempt numbers stay within `max_retries` + 1; a dead letter has failed at the last one."""
    last_failed: set[tuple[str, str]] = set()
    for fact in history.facts:
        if type(fact) is Started and fact.attempt > history.max_retries + 1:
            yield Violation(NAME, f"{fact.group} started {fact.message_id} for the {fact.attempt}th time; "
                            f"max_retries is {history.max_retries}", fact.at)  # fmt: skip
        elif type(fact) is Finished and not fact.is_ok and fact.attempt == history.max_retries + 1:
            last_failed.add((fact.group, fact.message_id))
    end = history.facts[-1].at if history.facts else 0.0
    for group, message_id in sorted(history.dead_letters - last_failed):
        yield Violation(NAME, f"{message_id} is a dead letter of {group} and had tries left", end)
