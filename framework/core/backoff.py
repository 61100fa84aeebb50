"""Backoff: bounded exponential delay. Health: whether a queue's tries go well, and how long it stands back where they
do not. Pure: time is an argument.

The jitter is handed in, so that a herd does not retry in step and a test repeats.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from framework.core import limits


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


FREE = 2
LOGGED_AT = 4
"""In a row: from here on they are a failure."""

Trouble: TypeAlias = Literal[
    "pull failed", "queue not begun", "broker away", "record damaged", "pulls not advancing"
]  # fmt: skip
"""What a queue may fail by, in the words of the log."""


class Health:
    """One per queue. Who tries waits until `until_ms`.

    A broker may also answer at once and bring nothing on. Two such answers are nothing: a long poll ends early, or a
    broker moves a queue and has to say so twice to be believed. Before each one more in a row there is a wait, longer
    and longer, or the broker would be asked as fast as it answers.
    """

    __slots__ = ("_busy", "_failing", "_idle", "_jitter", "_row", "failure", "trouble", "until_ms")

    def __init__(self, jitter: float) -> None:
        self._jitter = jitter
        self._failing = Backoff(limits.FAILURE_DELAY_MS, limits.FAILURE_DELAY_MAX_MS)
        self._busy = Backoff(limits.BUSY_DELAY_MS, limits.BUSY_DELAY_MAX_MS)
        self._idle = Backoff(limits.IDLE_DELAY_MS, limits.IDLE_DELAY_MAX_MS)
        self._row = 0
        """Answers since the last one that brought the queue on."""
        self.until_ms = 0
        self.failure: str | None = None
        """Why the last try failed; None while things go well."""
        self.trouble: Trouble = "pull failed"
        """What kind of failure that is."""

    def failed(self, reason: str, now_ms: int, trouble: Trouble = "pull failed", *, is_busy: bool = False) -> None:
        self.failure, self.trouble = reason, trouble
        self.until_ms = now_ms + (self._busy if is_busy else self._failing).failed(self._jitter)

    def brought_nothing(self, what: str, now_ms: int) -> None:
        """An answer brought nothing on. The first two of a row are tried again at once, and are no trouble."""
        self.succeeded()
        self._row += 1
        self.until_ms = now_ms + (self._idle.failed(self._jitter) if self._row > FREE else 0)
        if self._row >= LOGGED_AT:
            self.failure, self.trouble = f"{what}; {self._row} such answers in a row", "pulls not advancing"

    def got_on(self) -> None:
        """An answer brought the queue on, or the broker held the pull."""
        if self._row:
            self._row = 0
            self._idle.succeeded()
        if self.failure is not None:
            self.succeeded()

    def succeeded(self) -> None:
        """A try went well. That ends no row of answers that bring nothing on."""
        if self.failure is not None and self._row < LOGGED_AT:
            self.failure = None
            self._failing.succeeded()
            self._busy.succeeded()
            self.until_ms = 0

    def __repr__(self) -> str:
        return f"<Health {self.failure or 'well'}, until {self.until_ms}>"
