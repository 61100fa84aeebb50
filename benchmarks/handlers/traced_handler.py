"""The async handler in a process whose traces are sampled at 1 %."""

from __future__ import annotations

from benchmarks.handlers.counting import EDGES, declared, tally
from benchmarks.handlers.sampled import export_nowhere
from framework import Message


async def count(message: Message) -> None:
    tally.offsets += message.queue_offset
    tally.handled = handled = tally.handled + 1
    if handled in EDGES:
        tally.edge(handled)


export_nowhere()
handle = declared(count, at_the_end=lambda: None)
