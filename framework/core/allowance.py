"""Allowance: how much of us others may have for their questions, in number and in time of the event loop. Pure.

Both are kept as a level that rises with what was asked and falls as time goes by, so that a quiet minute saves up no
more than one burst.
"""

from __future__ import annotations


class Allowance:
    """What one asker, or all of them together, may have."""

    __slots__ = ("_at_ms", "_count", "_count_max", "_spent_max_ms", "_spent_ms")

    def __init__(self, count_a_second: int, spent_ms_a_second: float, now_ms: float) -> None:
        self._count_max, self._spent_max_ms = count_a_second, spent_ms_a_second
        self._at_ms = now_ms
        self._count = self._spent_ms = 0.0

    def has_room(self, now_ms: float) -> bool:
        """Whether one more question may be answered now."""
        passed = max(now_ms - self._at_ms, 0.0) / 1000
        self._at_ms = now_ms
        self._count = max(self._count - passed * self._count_max, 0.0)
        self._spent_ms = max(self._spent_ms - passed * self._spent_max_ms, 0.0)
        return self._count + 1 <= self._count_max and self._spent_ms < self._spent_max_ms

    def take(self, spent_ms: float) -> None:
        """One was answered, and took so long."""
        self._count += 1
        self._spent_ms += spent_ms

    def __repr__(self) -> str:
        return f"<Allowance {self._count:.0f} of {self._count_max}, {self._spent_ms:.1f} of {self._spent_max_ms:g} ms>"
