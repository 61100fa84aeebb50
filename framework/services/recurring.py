"""Recurring: log lines that could come a thousand times a minute. The first few of a kind are written, others counted.

A kind is an event of one topic and, for example, one class of error. After the first lines in a minute each further one
is written at debug only; at the end of the minute one line has their number and the newest of them. It is called for
each message that did not plainly succeed, from threads as well: a count may then miss one.
"""

from __future__ import annotations

from typing import Any, Literal

import structlog

from framework.ports import Clock

log = structlog.get_logger()

Level = Literal["info", "warning"]

FIRST = 3
DEAD_LETTERS_FIRST = 100  # each is somebody's to look at; beyond it is a storm, and the dead letters say it themselves
MINUTE_SECONDS = 60.0
LOOK_SECONDS = 10.0
KINDS_MAX = 200  # users choose what exceptions are called


class _Kind:
    """One kind's current minute."""

    __slots__ = ("count", "left", "level", "newest", "until")

    def __init__(self, until: float, left: int, level: Level) -> None:
        self.until, self.left, self.level = until, left, level
        self.count = 0
        self.newest: dict[str, Any] = {}


class Recurring:
    """One a group."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kinds: dict[tuple[str, ...], _Kind] = {}

    def say(self, level: Level, event: str, kind: tuple[str, ...], *, first: int = FIRST, **fields: Any) -> None:
        """Write the line, or count it. Without `first` it is counted only."""
        now, key = self._clock.monotonic(), (event, *kind)
        if key not in self._kinds and len(self._kinds) >= KINDS_MAX:
            key = (event, "others")
        found = self._kinds.get(key)
        if found is not None and now >= found.until:
            self._sum_up(key, found)
            found = None
        if found is None:
            found = self._kinds[key] = _Kind(now + MINUTE_SECONDS, first, level)
        if found.left > 0:
            found.left -= 1
            getattr(log, level)(event, **fields)
            return
        log.debug(event, **fields)
        fields.pop("exc_info", None)  # its traceback would keep a pull's bytes
        found.count += 1
        found.newest = fields

    def look(self) -> None:
        """Sum up the minutes that are over."""
        now = self._clock.monotonic()
        for key, found in list(self._kinds.items()):
            if now >= found.until:
                self._sum_up(key, found)

    def close(self) -> None:
        for key, found in list(self._kinds.items()):
            self._sum_up(key, found)

    def _sum_up(self, key: tuple[str, ...], found: _Kind) -> None:
        self._kinds.pop(key, None)
        if found.count:
            seconds = round(self._clock.monotonic() - found.until + MINUTE_SECONDS)
            getattr(log, found.level)(f"{key[0]}: more", count=found.count, within_s=seconds, **found.newest)

    def __repr__(self) -> str:
        return f"<Recurring {len(self._kinds)} kinds>"
