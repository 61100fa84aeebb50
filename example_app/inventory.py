"""Inventory: how many pieces of each article are there, kept in the order in which they came and went.

A step makes sense only after the one before it, so the group is orderly. All steps of an article are in one queue:
whoever sends them sees to that (see `traffic.py`).
"""

from __future__ import annotations

import json
from collections import defaultdict

from framework import DeadLetter, Message, Suspend, consumer

# Stands for a table with the article as its key; it begins anew when the application does.
STOCK: dict[str, int] = defaultdict(int)


@consumer(topic="stock", group="inventory", orderly=True)
def move(step: Message) -> Suspend | DeadLetter | None:
    """A plain function: it runs on a thread, one step of an article at a time."""
    try:
        details = json.loads(step.body)
        article, pieces = str(details["article"]), int(details["pieces"])
    except (ValueError, KeyError, TypeError) as error:
        return DeadLetter(f"not a step: {error!r}")
    if STOCK[article] + pieces < 0 and step.attempt == 1:
        # The shelf is empty. Nothing behind this step starts meanwhile, for it would find the same shelf.
        return Suspend("200ms")
    STOCK[article] = max(0, STOCK[article] + pieces)
    return None
