"""The async handler with a declaration about failures that never come."""

from __future__ import annotations

from benchmarks.handlers.counting import EDGES, declared, tally
from framework import Message, Retry


async def count(message: Message) -> None:
    tally.offsets += message.queue_offset
    tally.handled = handled = tally.handled + 1
    if handled in EDGES:
        tally.edge(handled)


RETRY = Retry(on=(OSError, TimeoutError), max=5, delays=["1s", "10s"])
handle = declared(count, at_the_end=lambda: None, retry=RETRY)
