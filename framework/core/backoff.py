"""Bounded exponential delay. The jitter is handed in, so that a herd does not retry in step and a test repeats."""

from __future__ import annotations


class Backoff:
    """Delays that double from `first_ms` to `max_ms`; a success starts over."""

    __slots__ = ("_first_ms", "_max_ms", "failures")

    def __init__(self, first_ms: int, max_ms: int) -> None:
        assert 0 < first_ms <= max_ms
        self._first_ms, self._max_ms = first_ms, max_ms
        self.failures = 0

    def failed(self, jitter: float) -> int:
        """The delay before the next try, in ms: half of it certain, half drawn by `jitter` (0.0 <= jitter < 1.0)."""
        # Beyond 2**20 the bound has long been reached; the cap keeps the shift small in a year-long outage.
        ceiling = min(self._first_ms << min(self.failures, 20), self._max_ms)
        self.failures += 1
        return ceiling // 2 + int(ceiling / 2 * jitter)

    def succeeded(self) -> None:
        self.failures = 0
