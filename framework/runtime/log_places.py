"""Which message a log line was written about: the one that the handler, in which it was written, is at."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from framework.core.expiry import LineSlot, Slot
from framework.model.message import Message
from framework.services.work import RUNNING


def with_place(logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Read from the worker's slot when a line is really written, so that a message costs nothing for it.

    What the line says itself stands. A batch is many messages, and no line of its handler is about one of them.
    """
    message = _current(RUNNING.get())
    if message is not None:
        event.setdefault("queue", str(message.queue))
        event.setdefault("offset", message.queue_offset)
        event.setdefault("message_id", message.message_id)
        event.setdefault("attempt", message.attempt)
    return event


def _current(slot: Slot | None) -> Message | None:
    if isinstance(slot, LineSlot):
        return slot.message
    running = slot.running if slot is not None else ()
    if len(running) != 1:
        return None
    chunk, index = running[0]
    return chunk.messages[index] if index < len(chunk.messages) else None
