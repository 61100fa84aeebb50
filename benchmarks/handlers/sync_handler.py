"""An application with one plain handler, which runs on many threads at once."""

from __future__ import annotations

from benchmarks.handlers.counting import EDGES, declared, tally
from benchmarks.handlers.threads import add_up, numbers, own
from framework import Message


def count(message: Message) -> None:
    own.cell[0] += message.queue_offset
    handled = next(numbers)
    if handled in EDGES:
        tally.handled = handled
        tally.edge(handled)


handle = declared(count, at_the_end=add_up)
