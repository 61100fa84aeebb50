"""An application with one async handler: all on the event loop, so that plain sums are right."""

from __future__ import annotations

from benchmarks.handlers.counting import EDGES, declared, tally
from framework import Message


async def count(message: Message) -> None:
    tally.offsets += message.queue_offset
    tally.handled = handled = tally.handled + 1
    if handled in EDGES:
        tally.edge(handled)


handle = declared(count, at_the_end=lambda: None)
