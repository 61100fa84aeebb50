"""Truth: joins and clean leaves alone never cause a second delivery."""

from __future__ import annotations

from collections.abc import Iterator

from framework.testing.errors import Violation
from framework.testing.history import History, Started

NAME = "calm runs do not repeat"


def calm_runs_do_not_repeat(history: History) -> Iterator[Violation]:
    """INVARIANTS section 3, clean hand-over. The same attempt of the same message is started once a group."""
    if not history.is_calm:
        return
    first: dict[tuple[str, str, int], Started] = {}
    for fact in history.of(Started):
        key = (fact.group, fact.message_id, fact.attempt)
        before = first.setdefault(key, fact)
        if before is not fact:
            yield Violation(NAME, f"{fact.who} started {fact.message_id} for {fact.group} again; "
                            f"{before.who} had it at {before.at:.3f}s", fact.at)  # fmt: skip
