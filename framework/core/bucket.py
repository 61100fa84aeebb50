"""Bucket: when the next messages of a limited rate may go. It knows no clock: time is an argument.

Kept as the instant up to which all is paid for, which needs no counting while nothing happens. A timer that wakes late
is made up for, by as much as one portion takes; a quiet hour is not, or its messages would all come at once.
"""

from __future__ import annotations

from framework.model.rate import Rate

PORTION_MS = 50.0  # what may go at once: twenty portions a second are smooth to a database, and few to us


class Bucket:
    """One rate and what was taken of it."""

    __slots__ = ("_each_ms", "due_ms", "portion", "rate")

    def __init__(self, rate: Rate, now_ms: float) -> None:
        self.rate = rate
        self._each_ms = rate.per_ms / rate.count
        self.portion = max(int(PORTION_MS / self._each_ms), 1)
        """Messages that go at once; one where they are seldom."""
        self.due_ms = now_ms
        """When the next may go."""

    def take(self, count: int, now_ms: float) -> None:
        """So many go now."""
        self.due_ms = max(self.due_ms, now_ms - PORTION_MS) + count * self._each_ms

    def __repr__(self) -> str:
        return f"<Bucket {self.rate}>"
