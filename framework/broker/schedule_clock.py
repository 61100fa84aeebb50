"""The schedule's clock: the wall clock without the steps that somebody set it by while we ran.

A delay must outlive a restart, so it is reckoned by a wall clock; and an hour's step must neither fire it early nor
late, so each step that is seen beside the monotonic clock is taken out again. What was taken out is kept by the owner,
and handed in at the next start.
"""

from __future__ import annotations

from collections.abc import Callable

from framework.marks import sometimes
from framework.ports import Clock

# Less is a clock that is being slewed, or this process held up between two readings; it is followed.
STEP_MS = 100


class ScheduleClock:
    """`stepped` is told what has been taken out in all, each time that there was a step."""

    def __init__(self, clock: Clock, *, skew_ms: int, stepped: Callable[[int], None]) -> None:
        self._clock = clock
        self._stepped = stepped
        self._ahead_ms = clock.now_ms() - clock.monotonic_ms()
        self.skew_ms = skew_ms
        """How far the wall clock is ahead of this one."""

    def now_ms(self) -> int:
        """The schedule's time. To be asked about once a second while something waits: a step is seen by asking."""
        wall_ms = self._clock.now_ms()
        ahead_ms = wall_ms - self._clock.monotonic_ms()
        step_ms, self._ahead_ms = ahead_ms - self._ahead_ms, ahead_ms
        if abs(step_ms) > STEP_MS:
            sometimes("broker: the wall clock was set")
            self.skew_ms += step_ms
            self._stepped(self.skew_ms)
        return wall_ms - self.skew_ms
