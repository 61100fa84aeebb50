"""Slot: what one worker runs now. Looked at from outside; written only by its worker."""

from __future__ import annotations

from framework.core.chunk import Chunk


class Slot:
    """One running handler: a message is (chunk, index). A plain slotted class: it is on every message's way."""

    __slots__ = ("chunk", "index", "is_leaving", "started", "until")

    def __init__(self) -> None:
        self.chunk: Chunk | None = None
        self.index = 0
        self.started = 0.0
        """Seconds on the monotonic clock."""
        self.until = 0
        """Where its worker's part of the chunk ends. Lowered from outside, it sends the worker home after the message
        that runs."""
        self.is_leaving = False
        """Its worker is one too many, and starts nothing more."""

    def __repr__(self) -> str:
        return f"<Slot {self.chunk} index={self.index}>" if self.chunk else "<Slot idle>"
