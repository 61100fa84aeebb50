"""What plugins are told of beside deliveries: values, made only where somebody listens."""

from __future__ import annotations

from dataclasses import dataclass

from framework.model.queue import MessageQueue


@dataclass(frozen=True, slots=True)
class ChunkSummary:
    """What came of a chunk (one pull's answer) since somebody was last told of it."""

    group: str
    queue: MessageQueue
    handled: int
    """Messages that ended as plain success; `after_consume` is told of the others."""
    elapsed_ms: float
    """How long workers were at it, all together."""
    bytes: int
    """Of the whole chunk, as it was pulled; 0 until its last message has ended."""
