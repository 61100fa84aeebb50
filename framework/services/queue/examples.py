"""Examples: which message a class of a histogram is shown with, so that a slow one can be looked up."""

from __future__ import annotations

from framework.core.chunk import Chunk
from framework.core.histogram import Histogram
from framework.errors import FrameworkError
from framework.model.snapshot import ExampleSnapshot
from framework.ports import Clock

TRACE_PARENT = "traceparent"
_TRACE_AT, _TRACE_PARTS = 1, 4


def show_example(times: Histogram, place: int, chunk: Chunk, seconds: float, clock: Clock) -> None:
    """The last message that a worker began in this chunk, where that class has had none for a while."""
    now_ms, index = clock.now_ms(), min(chunk.next, chunk.count) - 1
    if not times.wants_example(place, now_ms) or not 0 <= index < len(chunk.messages):
        return
    message = chunk.messages[index]
    try:
        message_id, parts = message.message_id, message.properties.get(TRACE_PARENT, "").split("-")
    except FrameworkError:
        return  # its properties cannot be read, which its handler finds out
    trace_id = parts[_TRACE_AT] if len(parts) == _TRACE_PARTS else ""
    times.show(place, ExampleSnapshot(trace_id, message_id, seconds, now_ms))
