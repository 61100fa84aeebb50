"""Damage: how a record that contradicts itself is found among others, and when it may be left behind. Pure.

A pull that holds one fails as a whole. Where the group skips such records, the range of that pull is asked for again
one record at a time, so that nothing but the damaged one is left out; and that only after it came damaged again.
"""

from __future__ import annotations

from framework.core import limits
from framework.model.pulled import Damaged


class Damage:
    """One a queue."""

    __slots__ = ("_at", "_times", "_until", "skips")

    def __init__(self, *, skips: bool = False) -> None:
        self.skips = skips
        """Whether a record that stays damaged is left behind; else its queue waits until it is mended."""
        self._until = 0
        self._at, self._times = -1, 0

    def asks_alone(self, offset: int) -> bool:
        """Whether the pull from here is to bring one record."""
        return offset < self._until

    def skipped_to(self, offset: int, result: Damaged) -> int | None:
        """A pull from here came damaged: where to go on instead, or None where it is to be tried again."""
        if not self.skips:
            return None
        if not self.asks_alone(offset):
            self._until = min(max(result.following, offset + 1), offset + limits.ALONE_MAX)
            return None
        if offset != self._at:
            self._at, self._times = offset, 0
        self._times += 1
        if self._times < limits.DAMAGED_TRIES:
            return None
        return result.until

    def __repr__(self) -> str:
        return f"<Damage {'skips' if self.skips else 'holds'}, alone until {self._until}>"
