"""The async handler, given its body as a pydantic model beside the message."""

from __future__ import annotations

from benchmarks.handlers.counting import EDGES, declared, tally
from benchmarks.handlers.order import Order
from framework import Message


async def count(order: Order, message: Message) -> None:
    assert order.number
    tally.offsets += message.queue_offset
    tally.handled = handled = tally.handled + 1
    if handled in EDGES:
        tally.edge(handled)


handle = declared(count, at_the_end=lambda: None)
