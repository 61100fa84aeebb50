"""Truth: where commits carry epochs, none counts once one of a later acquisition has."""

from __future__ import annotations

from collections.abc import Iterator

from framework.model.queue import MessageQueue
from framework.testing.errors import Violation
from framework.testing.history import Committed, History, Remade

NAME = "fences hold"


def fences_hold(history: History) -> Iterator[Violation]:
    """INVARIANTS C3 with the fence on. A topic that is made anew forgets what was kept of its former life."""
    highest: dict[tuple[str, MessageQueue], int] = {}
    for fact in history.facts:
        if type(fact) is Remade:
            highest = {key: epoch for key, epoch in highest.items() if key[1].topic != fact.topic}
        elif type(fact) is Committed and fact.epoch is not None and not fact.is_refused:
            key = fact.group, fact.queue
            before = highest.get(key, -1)
            if fact.epoch < before:
                what = f"{fact.by} committed {fact.offset} of {fact.queue} for {fact.group} in epoch {fact.epoch}"
                yield Violation(NAME, f"{what}, and it counted, after one in {before}", fact.at)
            highest[key] = max(before, fact.epoch)
