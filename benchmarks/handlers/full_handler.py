"""All together: a pydantic body, retries declared; three plugins with hooks before and after come by the settings."""

from __future__ import annotations

from benchmarks.handlers.counting import EDGES, declared, tally
from benchmarks.handlers.order import Order
from framework import Message, Retry


async def count(order: Order, message: Message) -> None:
    assert order.number
    tally.offsets += message.queue_offset
    tally.handled = handled = tally.handled + 1
    if handled in EDGES:
        tally.edge(handled)


RETRY = Retry(on=(OSError, TimeoutError), max=5, delays=["1s", "10s"])
handle = declared(count, at_the_end=lambda: None, retry=RETRY)
