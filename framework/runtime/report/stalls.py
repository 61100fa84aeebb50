"""StallWatch: names the handler that blocks the event loop, while it does. Nothing else in the process can.

A handler that never suspends holds heartbeats, pulls, limits of time and every other handler. The loop beats a few
times a second, and a thread looks whether it still does; where it does not, the thread can see where the loop's own is.
"""

from __future__ import annotations

import asyncio
import threading

import structlog

from framework.core import limits
from framework.model.snapshot import StallSnapshot
from framework.ports import Clock, Watchman
from framework.runtime.report.stacks import place_of

log = structlog.get_logger()

BEAT_SECONDS = 0.25


class StallWatch:
    """One an application, from `start` to `stop`. Each stall is one line, and another when it is over."""

    def __init__(self, clock: Clock, stall_seconds: float = limits.STALL_MS / 1000) -> None:
        self._clock, self._stall_seconds = clock, stall_seconds
        self._thread = 0
        self._beat_at = self._looked_at = self._back_at = self._late = 0.0
        self._is_stalled = False
        self._count = self._longest_ms = 0
        self._place = ""
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self, watchman: Watchman) -> None:
        self._thread, self._loop = threading.get_ident(), asyncio.get_running_loop()
        self._looked_at = self._clock.monotonic()
        self._beat()
        self._leave = watchman.watch(self.look, BEAT_SECONDS)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._leave()

    def _beat(self) -> None:
        now = self._clock.monotonic()
        if self._timer is not None:
            self._late = max(now - self._beat_at - BEAT_SECONDS, 0.0)
        self._beat_at = now
        self._timer = asyncio.get_running_loop().call_later(BEAT_SECONDS, self._beat)

    # From any thread

    def picture(self) -> StallSnapshot:
        """How the loop turns; while it does not begin, and where nobody watches it, nothing is known to be wrong."""
        blocked_ms = self._blocked_ms(self._clock.monotonic())
        late_ms = round(self._late * 1000)
        return StallSnapshot(self._count, max(self._longest_ms, blocked_ms), blocked_ms, late_ms, self._place)

    def _blocked_ms(self, now: float) -> int:
        """For how long the loop is blocked; 0 where a beat is not late enough to say so.

        The loop of a process that stood still, watchman and all, is late and not blocked: its return is what counts.
        """
        was_away = now - self._looked_at > self._stall_seconds
        late = now - max(self._beat_at, self._back_at)
        is_known = self._timer is not None and not was_away
        return round(late * 1000) if is_known and late > self._stall_seconds else 0

    @property
    def current_place(self) -> str:
        """Where the loop's thread is now."""
        return place_of(self._thread)

    @property
    def current_step(self) -> dict[object, int]:
        """The task whose step the loop's thread is in, with the number of that thread."""
        return {asyncio.current_task(self._loop): self._thread}

    # On the watchman's thread

    def look(self) -> None:
        now = self._clock.monotonic()
        if now - self._looked_at > self._stall_seconds:  # the whole process stood still, and not its loop alone
            self._back_at = now
        self._looked_at = now
        blocked_ms = self._blocked_ms(now)
        if self._is_stalled:
            self._longest_ms = max(self._longest_ms, blocked_ms)
        if blocked_ms and not self._is_stalled:
            self._is_stalled = True
            self._count += 1
            self._place = self.current_place
            task = asyncio.current_task(self._loop)
            log.warning(
                "event loop blocked",
                blocked_ms=blocked_ms,
                task=None if task is None else task.get_name(),
                place=self._place,
                reason="no other handler runs, and no heartbeat is sent",
            )
        elif self._is_stalled and now - self._beat_at <= self._stall_seconds:
            self._is_stalled = False
            log.info("event loop recovered")
