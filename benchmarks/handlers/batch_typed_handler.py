"""The async handler of batches of 32, given their bodies as pydantic models; numbers say which ones came."""

from __future__ import annotations

from benchmarks.handlers.counting import declared, tally
from benchmarks.handlers.order import Order
from framework import Message


async def count(orders: list[Order], messages: list[Message]) -> None:
    assert orders[0].number
    tally.offsets += sum([message.queue_offset for message in messages])
    tally.several(len(messages))


handle = declared(count, at_the_end=lambda: None, batch=32)
