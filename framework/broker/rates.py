"""How much came and went: messages, bytes and requests of the last minute, hour and day. Time is an argument."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

MINUTES_KEPT = 24 * 60
TICK_S = 10
_TICKS_A_MINUTE = 60 // TICK_S


class Sum(NamedTuple):
    messages: int = 0
    bytes: int = 0
    times: int = 0
    """How often something was counted: once a pull, once a stored message."""

    def plus(self, other: Sum) -> Sum:
        return Sum(self.messages + other.messages, self.bytes + other.bytes, self.times + other.times)


class Throughput:
    """Counted by ten seconds for the last minute, by the minute for a day. It stands in the way of every pull."""

    __slots__ = ("_bytes", "_messages", "_minute", "_minutes", "_tick", "_ticks", "_times", "all", "all_bytes")

    def __init__(self) -> None:
        self._tick = 0
        self._messages = self._bytes = self._times = 0
        self._ticks: deque[tuple[int, Sum]] = deque(maxlen=_TICKS_A_MINUTE)
        self._minute = Sum()
        """What the finished ticks of the minute under way had."""
        self._minutes: deque[tuple[int, Sum]] = deque(maxlen=MINUTES_KEPT)
        self.all = self.all_bytes = 0

    def add(self, messages: int, size: int, times: int, now_s: float) -> None:
        tick = int(now_s // TICK_S)
        if tick != self._tick:
            self._turn(tick)
        self._messages += messages
        self._bytes += size
        self._times += times
        self.all += messages
        self.all_bytes += size

    def _turn(self, tick: int) -> None:
        if self._messages or self._times:
            done = Sum(self._messages, self._bytes, self._times)
            self._ticks.append((self._tick, done))
            self._minute = self._minute.plus(done)
        minute = self._tick // _TICKS_A_MINUTE
        if tick // _TICKS_A_MINUTE != minute:
            if self._minute.times:
                self._minutes.append((minute, self._minute))
            self._minute = Sum()
        self._tick = tick
        self._messages = self._bytes = self._times = 0

    def last_minute(self, now_s: float) -> Sum:
        """Of the six last whole ticks and the one under way: of the last 60 to 70 seconds."""
        since = int(now_s // TICK_S) - _TICKS_A_MINUTE
        return self._summed(since, [(self._tick, self._under_way()), *self._ticks])

    def last_minutes(self, count: int, now_s: float) -> Sum:
        """Of so many last whole minutes, and of the one under way."""
        since = int(now_s // 60) - count
        now = (self._tick // _TICKS_A_MINUTE, self._minute.plus(self._under_way()))
        return self._summed(since, [now, *self._minutes])

    def per_second(self, now_s: float) -> float:
        """Messages a second over the last minute: of the oldest ten seconds the part that belongs to it."""
        tick, into_s = divmod(now_s, TICK_S)
        oldest = int(tick) - _TICKS_A_MINUTE
        before = sum(done.messages for at, done in self._ticks if at == oldest)
        return (self.last_minute(now_s).messages - before * into_s / TICK_S) / 60

    def _under_way(self) -> Sum:
        return Sum(self._messages, self._bytes, self._times)

    @staticmethod
    def _summed(since: int, parts: list[tuple[int, Sum]]) -> Sum:
        total = Sum()
        for at, part in parts:
            if at >= since:
                total = total.plus(part)
        return total
