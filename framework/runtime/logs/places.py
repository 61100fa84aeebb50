"""Which message a log line was written about: the one that the handler, in which it was written, is at."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from framework.core.expiry import LineSlot, Slot
from framework.errors import FrameworkError
from framework.model.message import Message
from framework.services.pool.run import RUNNING

TRACE_PARENT = "traceparent"
"""The property in which W3C's trace context travels: version-trace-span-flags."""
_TRACE_AT, _TRACE_PARTS = 1, 4


def with_place(logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Read from the worker's slot when a line is really written, so that a message costs nothing for it.

    What the line says itself stands. A batch is many messages, and its lines say how many.
    """
    slot = RUNNING.get()
    if slot is not None:
        for name, value in _place(slot).items():
            event.setdefault(name, value)
    return event


def _place(slot: Slot) -> dict[str, object]:
    if isinstance(slot, LineSlot):
        if slot.message is not None:
            return {"group": slot.group, **_told(slot.message)}
        return {"group": slot.group, "batch": slot.batch} if slot.batch else {}
    running = slot.running
    if not running:
        return {}
    chunk, index = running[0]
    group: dict[str, object] = {"group": chunk.run.group_name}
    if len(running) > 1:
        return {**group, "batch": len(running)}
    return {**group, **_told(chunk.messages[index])} if index < len(chunk.messages) else {}


def _told(message: Message) -> dict[str, object]:
    place: dict[str, object] = {"queue": str(message.queue), "offset": message.queue_offset}
    try:
        place |= {"message_id": message.message_id, "attempt": message.attempt}
        parts = message.properties.get(TRACE_PARENT, "").split("-")
    except FrameworkError:
        return place  # whoever reads it will find out, and a line of the log is no place for that
    if len(parts) == _TRACE_PARTS:
        place["trace_id"] = parts[_TRACE_AT]
    return place
