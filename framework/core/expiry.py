"""Slot: what one worker runs now. Looked at from outside; written only by its worker."""

from __future__ import annotations

from framework.core.chunk import Chunk


class Slot:
    """One running handler: a message is (chunk, index). A plain slotted class: it is on every message's way."""

    __slots__ = ("chunk", "index", "started")

    def __init__(self) -> None:
        self.chunk: Chunk | None = None
        self.index = 0
        self.started = 0.0
        """Seconds on the monotonic clock."""

    def __repr__(self) -> str:
        return f"<Slot {self.chunk} index={self.index}>" if self.chunk else "<Slot idle>"
