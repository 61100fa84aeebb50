"""Truth: every message whose send was acknowledged is finished at least once in each group, or is a dead letter."""

from __future__ import annotations

from collections.abc import Iterator

from framework.testing.checkers.former_life import skipped
from framework.testing.errors import Violation
from framework.testing.history import Finished, History, Sent

NAME = "nothing lost"


def nothing_lost(history: History) -> Iterator[Violation]:
    """INVARIANTS C1. Meaningful once everything was to be handled."""
    if not history.is_drained:
        return
    finished = {(fact.group, fact.message_id) for fact in history.of(Finished) if fact.is_ok}
    former = skipped(history)
    for sent in history.of(Sent):
        if sent.at < history.excused_until:
            continue
        for group in history.groups:
            key = (group, sent.message_id)
            if sent.offset < former.get((group, sent.queue), 0):
                continue
            if key not in finished and key not in history.dead_letters:
                yield Violation(
                    NAME, f"group {group} never finished {sent.message_id} ({sent.queue} {sent.offset})", sent.at
                )
