"""StallWatch: names the handler that blocks the event loop, while it does. Nothing else in the process can.

A handler that never suspends holds heartbeats, pulls, limits of time and every other handler. The loop beats a few
times a second, and a thread looks whether it still does; where it does not, the thread can see where the loop's own is.
"""

from __future__ import annotations

import asyncio
import threading

import structlog

from framework.core import limits
from framework.ports import Clock, Watchman
from framework.runtime.report.stacks import place_of

log = structlog.get_logger()

BEAT_SECONDS = 0.25


class StallWatch:
    """One an application, from `start` to `stop`. Each stall is one line, and another when it is over."""

    def __init__(self, clock: Clock, stall_seconds: float = limits.STALL_MS / 1000) -> None:
        self._clock, self._stall_seconds = clock, stall_seconds
        self._thread = 0
        self._beat_at = self._looked_at = 0.0
        self._is_stalled = False
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
            self._leave()

    def _beat(self) -> None:
        self._beat_at = self._clock.monotonic()
        self._timer = asyncio.get_running_loop().call_later(BEAT_SECONDS, self._beat)

    # On the watchman's thread

    def look(self) -> None:
        now = self._clock.monotonic()
        was_away = now - self._looked_at > self._stall_seconds  # the whole process stood still, and not its loop alone
        self._looked_at = now
        is_stalled = now - self._beat_at > self._stall_seconds
        if is_stalled and not self._is_stalled and not was_away:
            self._is_stalled = True
            task = asyncio.current_task(self._loop)
            log.warning(
                "event loop blocked",
                blocked_ms=round((now - self._beat_at) * 1000),
                task=None if task is None else task.get_name(),
                place=place_of(self._thread),
                reason="no other handler runs, and no heartbeat is sent",
            )
        elif self._is_stalled and not is_stalled:
            self._is_stalled = False
            log.info("event loop recovered")
