"""Truth: where commits carry epochs, none counts once a later acquisition has begun."""

from __future__ import annotations

from collections.abc import Iterator

from framework.model.queue import MessageQueue
from framework.testing.errors import Violation
from framework.testing.history import Committed, History, Remade, Started

NAME = "fences hold"


def fences_hold(history: History) -> Iterator[Violation]:
    """INVARIANTS C3 with the fence on: from the first handler that was told a later epoch on, or a commit in it.

    A topic that is made anew forgets what was kept of its former life.
    """
    highest: dict[tuple[str, MessageQueue], int] = {}
    for fact in history.facts:
        if type(fact) is Remade:
            highest = {key: epoch for key, epoch in highest.items() if key[1].topic != fact.topic}
        elif type(fact) is Started and fact.epoch is not None:
            key = fact.group, fact.queue
            highest[key] = max(highest.get(key, -1), fact.epoch)
        elif type(fact) is Committed and fact.epoch is not None and not fact.is_refused:
            key = fact.group, fact.queue
            before = highest.get(key, -1)
            if fact.epoch < before:
                what = f"{fact.by} committed {fact.offset} of {fact.queue} for {fact.group} in epoch {fact.epoch}"
                yield Violation(NAME, f"{what}, and it counted, after {before} had begun", fact.at)
            highest[key] = max(before, fact.epoch)
