"""BrokerTime: what time it is at the brokers, within bounds, from what they said and how long that took. Pure.

Machines' wall clocks are off, and step. What members compare with each other (which subscription is the newer one, how
old a message is) goes by the brokers' clock. A broker reads it somewhere between our question and its answer, so each
answer bounds how far its clock is from our monotonic one; several answers bound it from both sides.
"""

from __future__ import annotations

from dataclasses import dataclass

DRIFT = 5_000
"""Two clocks of quartz part by less than a millisecond in so many."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a broker said of its clock: Unix time, at least and at most. Some tell whole seconds only."""

    low_ms: int
    high_ms: int


@dataclass(frozen=True, slots=True)
class Ahead:
    """How far a broker's clock is ahead of our monotonic one, as it was known at an instant of that."""

    low_ms: int
    high_ms: int
    at_ms: int

    def grown(self, now_ms: int) -> Ahead:
        """The same, as far as it is still known."""
        parted = (now_ms - self.at_ms) // DRIFT + 1
        return Ahead(self.low_ms - parted, self.high_ms + parted, now_ms)


class BrokerTime:
    """One an application. Times that are told to it are monotonic."""

    __slots__ = ("_ahead",)

    def __init__(self) -> None:
        self._ahead: dict[str, Ahead] = {}

    def answered(self, broker: str, reading: Reading, asked_ms: int, now_ms: int) -> bool:
        """Take in an answer; False where it contradicts those before it: that broker's clock was set."""
        found = Ahead(reading.low_ms - now_ms, reading.high_ms - asked_ms, now_ms)
        before = self._ahead.get(broker)
        is_set = False
        if before is not None:
            known = before.grown(now_ms)
            low, high = max(found.low_ms, known.low_ms), min(found.high_ms, known.high_ms)
            is_set = low > high
            if not is_set:
                found = Ahead(low, high, now_ms)
        self._ahead[broker] = found
        return not is_set

    def forget(self, broker: str) -> None:
        self._ahead.pop(broker, None)

    @property
    def brokers(self) -> tuple[str, ...]:
        """Those of whom something is known."""
        return tuple(self._ahead)

    def of(self, broker: str, now_ms: int) -> tuple[int, int] | None:
        """What time it is at one of them, at least and at most; None where it has not said."""
        ahead = self._ahead.get(broker)
        if ahead is None:
            return None
        known = ahead.grown(now_ms)
        return known.low_ms + now_ms, known.high_ms + now_ms

    def bounds(self, now_ms: int) -> tuple[int, int] | None:
        """What time it is, at least and at most; None where nobody has said. One of several brokers counts whose clock
        is in the middle, so that one that is wrong by hours moves nothing.
        """
        if not self._ahead:
            return None
        spans = sorted(self._ahead.values(), key=lambda each: (each.low_ms + each.high_ms, each.low_ms))
        middle = spans[(len(spans) - 1) // 2].grown(now_ms)
        return middle.low_ms + now_ms, middle.high_ms + now_ms

    def corrected(self, wall_ms: int, now_ms: int) -> int:
        """The wall clock's time where that may be right; else the nearest one that may."""
        bounds = self.bounds(now_ms)
        return wall_ms if bounds is None else min(max(wall_ms, bounds[0]), bounds[1])

    def __repr__(self) -> str:
        return f"<BrokerTime of {', '.join(self._ahead) or 'nobody'}>"
