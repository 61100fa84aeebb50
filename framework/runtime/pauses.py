"""Pauses: who paused a group, when, why and until when; a pause with an end is ended here.

Owns the timers. It knows groups by name only; that a group starts nothing while it is paused, its settings say.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime

import structlog

from framework.mistakes import ArgumentWrong
from framework.model import durations
from framework.model.snapshot import PauseSnapshot
from framework.ports import Clock

log = structlog.get_logger()


class Pauses:
    """One per application. What is paused by the settings alone is not in here."""

    def __init__(self, clock: Clock, resume: Callable[[str], None]) -> None:
        """`resume` is called with a group's name when its pause is over."""
        self._clock, self._resume = clock, resume
        self._pauses: dict[str, PauseSnapshot] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def begin(self, group: str, *, length_ms: int | None, by: str, reason: str) -> None:
        """From now on, in place of an earlier pause; without a length until somebody resumes it."""
        self.end(group)
        now_ms = self._clock.now_ms()
        until_ms = None if length_ms is None else now_ms + length_ms
        self._pauses[group] = PauseSnapshot(at_ms=now_ms, by=by, reason=reason, until_ms=until_ms)
        if length_ms is not None:
            self._timers[group] = asyncio.get_running_loop().call_later(length_ms / 1000, self._over, group)

    def end(self, group: str) -> None:
        """It was resumed, or its settings say now whether it is paused."""
        self._pauses.pop(group, None)
        timer = self._timers.pop(group, None)
        if timer is not None:
            timer.cancel()

    def of(self, group: str) -> PauseSnapshot | None:
        """None where nobody paused it, or only its settings do."""
        return self._pauses.get(group)

    def close(self) -> None:
        for group in list(self._pauses):
            self.end(group)

    def _over(self, group: str) -> None:
        pause = self._pauses[group]
        self.end(group)
        log.info("pause over", group=group, by=pause.by, reason=pause.reason)
        self._resume(group)


def pause_ms(group: str, length: str | float) -> int:
    """How long a pause is; raises ArgumentWrong."""
    try:
        found = durations.to_ms(length)
    except (ValueError, TypeError) as error:
        raise ArgumentWrong(f"pause({group!r}): length: {error}") from None
    if not found:
        raise ArgumentWrong(f"pause({group!r}): length: {length!r} is no time; write 10m, or leave it out")
    return found


def pause_text(pause: PauseSnapshot | None) -> str:
    """Who, when, until when and why, for those who ask a member through a broker."""
    if pause is None:
        return "by its settings"
    until = f" until {_instant(pause.until_ms)}" if pause.until_ms is not None else ""
    told = f"{f'by {pause.by} ' if pause.by else ''}at {_instant(pause.at_ms)}{until}"
    return f"{told}: {pause.reason}" if pause.reason else told


def _instant(ms: int) -> str:
    return datetime.fromtimestamp(ms // 1000, UTC).isoformat().replace("+00:00", "Z")
