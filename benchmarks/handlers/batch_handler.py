"""An application with one async handler of batches of 32: what a call a batch costs instead of one a message."""

from __future__ import annotations

from benchmarks.handlers.counting import declared, tally
from framework import Message


async def count(messages: list[Message]) -> None:
    tally.offsets += sum([message.queue_offset for message in messages])
    tally.several(len(messages))


handle = declared(count, at_the_end=lambda: None, batch=32)
