"""An application with one async handler in order: queues under locks, one message of each at a time."""

from __future__ import annotations

from benchmarks.handlers.counting import EDGES, declared, tally
from framework import Message


async def count(message: Message) -> None:
    tally.offsets += message.queue_offset
    tally.handled = handled = tally.handled + 1
    if handled in EDGES:
        tally.edge(handled)


handle = declared(count, at_the_end=lambda: None, orderly=True)
