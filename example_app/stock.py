"""Stock: how many pieces of each article there are, kept in the order in which they came and went.

A step makes sense only after the one before it, so the group is orderly; but only steps of one article wait for each
other. All steps of an article must be in one queue: their sender takes care of that (see `traffic.py`).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from framework import Message, Suspend, consumer

# Stands for a table with the article as its key; it begins anew when the application does.
SHELF: dict[str, int] = defaultdict(int)


@dataclass
class Step:
    """So many pieces came, or went where it is below 0."""

    article: str
    pieces: int


def article_of(message: Message) -> str:
    """Whose order is kept. Read from the message's keys, so that nothing is decoded for it."""
    return message.keys[0]


@consumer(topic="stock", group="stock", orderly="key", key=article_of)
def move(step: Step, message: Message) -> Suspend | None:
    """A plain function: it runs on a thread, one step of an article at a time."""
    if SHELF[step.article] + step.pieces < 0 and message.attempt == 1:
        # The shelf is empty. No other step of this article starts meanwhile, for it would find the same shelf.
        return Suspend("200ms")
    SHELF[step.article] = max(0, SHELF[step.article] + step.pieces)
    return None
