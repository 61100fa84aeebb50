"""What processes still do for a topic's previous life after the topic was deleted and made again.

Offsets carry no mark of the life they belong to. A member that took a queue before the topic was made again, and does
not know of it yet, commits an offset of the old one, and a stock broker believes it: new messages below it are skipped.
Checkers demand everything else.
"""

from __future__ import annotations

from framework.model.queue import MessageQueue
from tests.simulation.facts import Acquired, Committed, Remade, Started
from tests.simulation.history import History

Skipped = dict[tuple[str, MessageQueue], int]
"""(group, queue) -> the highest offset that was committed out of a former life."""


def deleted(history: History) -> dict[str, float]:
    """Topic -> until when what was sent there is gone, since an administrator deleted it."""
    return {fact.topic: fact.at for fact in history.of(Remade)}


def skipped(history: History) -> Skipped:
    found: Skipped = {}
    begun: dict[tuple[str, str, str], float] = {}
    remade: dict[str, float] = {}
    for fact in history.facts if any(history.of(Remade)) else ():
        if type(fact) is Remade:
            remade[fact.topic] = fact.at
        elif type(fact) is Acquired:
            begun[fact.who, fact.group, fact.queue] = fact.at
        elif type(fact) is Committed and is_of_former_life(fact, fact.by, begun, remade):
            key = (fact.group, fact.queue)
            found[key] = max(found.get(key, 0), fact.offset)
    return found


def is_of_former_life(
    fact: Committed | Started, who: str, begun: dict[tuple[str, str, str], float], remade: dict[str, float]
) -> bool:
    """Whether `who` took the queue before its topic was last made anew."""
    at = remade.get(fact.queue.topic)
    return at is not None and begun.get((who, fact.group, str(fact.queue)), 0.0) <= at
