"""Comparing: reads the messages at a record's ends; `core/ranges.py` judges whether they are still the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from framework.core.ranges import Finished, Mark, mark_of, why_not
from framework.model.message import Message
from framework.model.queue import MessageQueue


class Looks(Protocol):
    """The calls of the client that progress needs."""

    async def peek(self, group: str, queue: MessageQueue, offset: int, count: int) -> list[Message]: ...
    async def commit_confirmed(
        self, group: str, queue: MessageQueue, committable: Callable[[], int | None]
    ) -> int | None: ...


async def compared(
    looks: Looks, group: str, queue: MessageQueue, found: Finished | None, offset: int, stored: int | None
) -> tuple[Finished | None, str | None]:
    """What may be passed over, or why something must not be."""
    if found is None or (stored is not None and offset == stored > found.last.offset):
        return None, None
    begins = stored if offset == stored else None
    at_low = at_last = None
    if begins is not None and begins >= found.low.offset:
        at_low = await _mark_at(looks, group, queue, found.low.offset)
        at_last = await _mark_at(looks, group, queue, found.last.offset)
    reason = why_not(found, begins, at_low, at_last)
    return (found, None) if reason is None else (None, reason)


async def _mark_at(looks: Looks, group: str, queue: MessageQueue, offset: int) -> Mark | None:
    for message in await looks.peek(group, queue, offset, 1):
        return mark_of(message) if message.queue_offset == offset else None
    return None
