"""How much groups are given: by (group, topic), of the last minute, hour and day. Time is an argument, in minutes."""

from __future__ import annotations

from collections import deque

MINUTES_KEPT = 24 * 60


class Rate:
    """Messages counted by the minute. Counting is a comparison and an addition: it stands in the way of every pull."""

    __slots__ = ("_count", "_finished", "_minute", "all")

    def __init__(self) -> None:
        self._minute = 0
        self._count = 0
        self.all = 0
        self._finished: deque[tuple[int, int]] = deque(maxlen=MINUTES_KEPT)

    def add(self, count: int, minute: int) -> None:
        if minute != self._minute:
            if self._count:
                self._finished.append((self._minute, self._count))
            self._minute, self._count = minute, 0
        self._count += count
        self.all += count

    def total(self, minutes: int, now_minute: int) -> int:
        """Messages in the last whole minutes, and in the one under way."""
        since = now_minute - minutes
        total = self._count if self._minute >= since else 0
        return total + sum(count for minute, count in self._finished if minute >= since)


def per_second(rate: Rate | None, now_s: float) -> float:
    """Messages a second: the minute under way, and the part of the last one that is less than a minute ago."""
    if rate is None:
        return 0.0
    minute, into_s = divmod(now_s, 60)
    now = rate.total(0, int(minute))
    before = rate.total(1, int(minute)) - now
    return (now + before * (60 - into_s) / 60) / 60
