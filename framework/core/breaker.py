"""Breaker: whether the handlers of one topic fail all, so that its messages are tried one at a time.

It opens once so many messages have failed and none has succeeded. From then on one message at a time may start, after
a pause that doubles with each that fails; one that succeeds closes it. A message counts once, however often it is
tried: a poison message does not open it alone. It knows no clock: time is an argument.
"""

from __future__ import annotations

from collections.abc import Hashable

from framework.core import limits

CAUSES_MAX = 20
OTHERS = "other errors"


class Breaker:
    """One topic of a group, in one process."""

    __slots__ = (
        "_causes", "_failed", "_least", "_limit", "_pause_ms", "due_ms", "failures", "is_open", "topic", "trial",
    )  # fmt: skip

    def __init__(self, topic: str, limit: int, least: int = 1) -> None:
        """`limit`: failed messages that open it, 0 for never; `least` where one call of the handler fails so many."""
        self.topic, self._limit, self._least = topic, limit, least
        self.failures = 0
        """Messages that have failed since the last success; 0 while all is well, which is what a success looks at."""
        self._failed: set[Hashable] = set()
        """Which they are, until it opens."""
        self._causes: dict[str, tuple[int, str]] = {}
        """Kind of failure -> how often, and the text of the last one."""
        self.is_open = False
        self.trial: object | None = None
        """The message that is tried, as the shell names it."""
        self.due_ms = 0
        """When the next one may be tried."""
        self._pause_ms = limits.TRIAL_PAUSE_MS

    def failed(self, now_ms: int, message: Hashable, kind: str, text: str, tried: object | None = None) -> bool:
        """A message failed, which `tried` names; whether the breaker opens by that."""
        if not self._limit:
            return False
        if kind not in self._causes and len(self._causes) >= CAUSES_MAX:
            kind, text = OTHERS, ""
        count, before = self._causes.get(kind, (0, ""))
        self._causes[kind] = count + 1, text or before
        if self.is_open:
            self.failures += 1
            if tried is not None and tried is self.trial:
                self._pause_ms = min(2 * self._pause_ms, limits.TRIAL_PAUSE_MAX_MS)
                self._stand_back(now_ms)
            return False
        self._failed.add(message)
        self.failures = len(self._failed)
        return self._opens(now_ms)

    def undecided(self, now_ms: int, tried: object) -> None:
        """What was tried neither failed nor succeeded: another one is tried after the same pause."""
        if self.trial is tried:
            self._stand_back(now_ms)

    def succeeded(self) -> bool:
        """A handler returned; whether the breaker closes by that."""
        was_open = self.is_open
        self._forget()
        return was_open

    def adopt(self, limit: int, now_ms: int) -> bool:
        """Go on with another limit, at once; whether it opens or closes by that."""
        self._limit = limit
        if not self.is_open:
            return bool(self.failures) and self._opens(now_ms)
        if self._limit and self.failures >= max(self._limit, self._least):
            return False
        return self.succeeded()

    def begin(self, trial: object) -> None:
        """A message is tried now."""
        assert self.may_try(self.due_ms), f"{self!r}: nothing is to be tried"
        self.trial = trial

    def may_try(self, now_ms: int) -> bool:
        return self.is_open and self.trial is None and now_ms >= self.due_ms

    @property
    def cause(self) -> str:
        """The commonest kind of failure, and how many were of it."""
        if not self._causes:
            return ""
        kind, (count, text) = max(self._causes.items(), key=lambda each: each[1][0])
        told = f"{kind}: {text}" if text else kind
        return f"{told} ({count} of {sum(count for count, _ in self._causes.values())})"

    def _opens(self, now_ms: int) -> bool:
        if not self._limit or self.failures < max(self._limit, self._least):
            return False
        self.is_open, self._pause_ms = True, limits.TRIAL_PAUSE_MS
        self._failed.clear()
        self._stand_back(now_ms)
        return True

    def _stand_back(self, now_ms: int) -> None:
        self.trial, self.due_ms = None, now_ms + self._pause_ms

    def _forget(self) -> None:
        self.is_open, self.trial, self.failures = False, None, 0
        self._failed.clear()
        self._causes.clear()

    def __repr__(self) -> str:
        return f"<Breaker {self.topic}: {'open' if self.is_open else 'closed'}, {self.failures} failed>"
