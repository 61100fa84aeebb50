"""Invariant: where commits carry epochs, no earlier acquisition's commit takes effect once a later one has begun."""

from __future__ import annotations

from collections.abc import Iterator

from framework.model.queue import MessageQueue
from framework.testing.errors import Violation
from tests.simulation.checkers.excuses import excuse
from tests.simulation.checkers.former_life import is_of_former_life
from tests.simulation.facts import Acquired, Committed, Remade, Started
from tests.simulation.history import History

NAME = "fences hold"


def fences_hold(history: History) -> Iterator[Violation]:
    """An older epoch commits nothing where the fence is on: from the first handler that was told a later epoch on, or a
    commit in it.

    A topic that is made anew forgets what was kept of its former life: who took a queue in that one fences nobody off.
    """
    highest: dict[tuple[str, MessageQueue], int] = {}
    begun: dict[tuple[str, str, str], float] = {}
    remade: dict[str, float] = {}
    for fact in history.facts:
        if type(fact) is Acquired and not fact.is_moved:
            begun[fact.who, fact.group, fact.queue] = fact.at
        elif type(fact) is Remade:
            remade[fact.topic] = fact.at
            highest = {key: epoch for key, epoch in highest.items() if key[1].topic != fact.topic}
        elif type(fact) is Started and fact.epoch is not None:
            key = fact.group, fact.queue
            if is_of_former_life(fact, fact.who, begun, remade):
                excuse(history, NAME, "an epoch of its topic's former life")
            else:
                highest[key] = max(highest.get(key, -1), fact.epoch)
        elif type(fact) is Committed and fact.epoch is not None and not fact.is_refused:
            key = fact.group, fact.queue
            before = highest.get(key, -1)
            if fact.epoch < before:
                what = f"{fact.by} committed {fact.offset} of {fact.queue} for {fact.group} in epoch {fact.epoch}"
                yield Violation(NAME, f"{what}, and it counted, after {before} had begun", fact.at)
            if not is_of_former_life(fact, fact.by, begun, remade):
                highest[key] = max(before, fact.epoch)
