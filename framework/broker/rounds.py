"""Rounds: what the store has on a schedule is seen to when the first of it is due, in one write after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from framework.broker.store.writer import Transaction, Writer
from framework.errors import FrameworkError

# One write's worth: larger ones would hold the loop while thousands fall due together.
ROUND_MAX = 200
# The clock may be set: a step of it is noticed by looking, and written down before a crash could follow.
_LOOK_S = 1.0
_STAND_BACK_S = 1.0


class Timer(Protocol):
    """A callback that has not come yet."""

    def cancel(self) -> None: ...


class Timers(Protocol):
    """What the broker needs of an event loop: an asyncio loop fits, and tests turn the time themselves."""

    def time(self) -> float: ...
    def call_later(self, delay: float, callback: Callable[..., Any], *args: Any) -> Timer: ...


class Rounds:
    """`change` sees to what is due by `now_ms`, and says when the next is; `after` hears that it is on disk.

    `failure` is what `trouble` hears of a round that could not be written.
    """

    def __init__(
        self, timers: Timers, writer: Writer, now_ms: Callable[[], int], change: Callable[[Transaction], int | None],
        failure: str, trouble: Callable[[str], None], after: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        self._timers, self._writer, self._now_ms = timers, writer, now_ms
        self._change, self._after = change, after
        self._failure, self._trouble = failure, trouble
        self._next_ms: int | None = None
        self._timer: Timer | None = None
        self._is_under_way = self._is_stopped = False

    def start(self, next_ms: int | None) -> None:
        """Take up what the store has, the first of it due then."""
        self._next_ms = next_ms
        self._set_timer()

    def planned(self, due_ms: int) -> None:
        """Hear that a plan is committed."""
        if self._next_ms is None or due_ms < self._next_ms:
            self._next_ms = due_ms
            self._set_timer()

    def stop(self) -> None:
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._next_ms is None or self._is_under_way or self._is_stopped:
            return
        wait_s = min(max(self._next_ms - self._now_ms(), 0) / 1000, _LOOK_S)
        self._timer = self._timers.call_later(wait_s, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._next_ms is None or self._now_ms() < self._next_ms:
            self._set_timer()
            return
        self._is_under_way = True
        self._writer.submit(self._change, self._ended)

    def _ended(self, next_ms: int | None, error: FrameworkError | None) -> None:
        self._is_under_way = False
        if self._is_stopped:
            return
        if error is not None:
            self._trouble(f"{self._failure}: {error}; tried again in {_STAND_BACK_S:.0f} s")
            self._timer = self._timers.call_later(_STAND_BACK_S, self._look)
            return
        self._next_ms = next_ms
        self._set_timer()
        self._after()
