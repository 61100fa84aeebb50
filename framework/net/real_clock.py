"""The machine's clock, by itself: a signal may come before anything else is imported."""

from __future__ import annotations

import time


class RealClock:
    monotonic = staticmethod(time.monotonic)  # exactly the system's: one call on the hot path, not two

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return int(time.monotonic() * 1000)
