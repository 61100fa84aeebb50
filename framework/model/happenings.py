"""Events beside deliveries, as hooks get them: made only where a plugin listens."""

from __future__ import annotations

from dataclasses import dataclass

from framework.model.queue import MessageQueue


@dataclass(frozen=True, slots=True)
class ChunkSummary:
    """What was done of a chunk (one pull's result) since the last call."""

    group: str
    queue: MessageQueue
    handled: int
    """Messages done by plain success; `after_consume` is called for the others."""
    elapsed_ms: float
    """How long workers were at it, all together."""
    bytes: int
    """Of the whole chunk, as it was pulled; 0 until its last message has ended."""
