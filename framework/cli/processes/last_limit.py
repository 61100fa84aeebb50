"""LastLimit: ends this process when its end takes longer than it may, whatever waits: a handler that holds the event
loop or swallows its cancellation, a thread, a child process that is joined at exit. The event loop could not do that.

A watchman looks from a thread of its own. It knows when the end was asked for, and neither who asked nor what runs.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress

import structlog

from framework.cli.exit_codes import ExitCode
from framework.ports import Clock, Watchman
from framework.runtime.report.stacks import place_of

log = structlog.get_logger()

LOOK_SECONDS = 0.25
TURN_SECONDS = 2.0
"""An event loop that has not turned for so long, when the drain is over, is blocked by somebody."""
SAYING_SECONDS = 2.0
"""Another thread may hold the lock of the log for good."""


class LastLimit:
    """One a process that ends in order."""

    def __init__(
        self,
        clock: Clock,
        limits_ms: Callable[[], tuple[int, int]],
        *,
        places: Callable[[], list[str]] = list,
        farewell: Callable[[], object] = lambda: None,
        word: Callable[[], object] = lambda: None,
        leave: Callable[[int], object] = os._exit,
    ) -> None:
        """`limits_ms`: the drain, and all that an end may take, from the moment that it is asked for. `places`: where
        handlers are. `farewell`: the last line, where nobody else will say it. `word`: called once a look while
        the end goes on behind the drain, so that a parent knows that this process is not the one that stands still.
        """
        self.code: int | None = None
        """What the process is about to end with; None while it is not known."""
        self._clock, self._limits_ms, self._places = clock, limits_ms, places
        self._farewell, self._word, self._leave = farewell, word, leave
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.get_ident()
        self._asked_at: float | None = None
        self._turned_at: float | None = None
        """When the loop was last seen to turn, behind the drain."""

    def begin(self, watchman: Watchman, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """Look from now on, until the process has ended."""
        self._loop, self._watchman = loop, watchman
        watchman.watch(self.look, LOOK_SECONDS)

    def ask(self) -> None:
        """The end is asked for. From any thread, and from signal handlers."""
        if self._asked_at is None:
            self._asked_at = self._clock.monotonic()

    def finished(self, code: int) -> None:
        """All is done in order but for what the interpreter itself waits for: threads, and children."""
        self.code = code
        self.ask()

    # On the watchman's thread

    def look(self) -> None:
        if self._asked_at is None:
            return
        now, (drain_ms, most_ms) = self._clock.monotonic(), self._limits_ms()
        took = now - self._asked_at
        if took < drain_ms / 1000:
            return
        if self.code is not None:
            self._end("threads or child processes of its handlers do not end", [*_other_threads(), self._own_place])
            return
        self._ask_loop()
        if self._turned_at is None:
            self._turned_at = now
        if now - self._turned_at > TURN_SECONDS:
            self._end("the event loop is blocked", [])
        elif took >= most_ms / 1000:
            self._end(f"its end has taken {took:.0f} s", [])
        else:
            self._word()

    def _ask_loop(self) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):  # it is closed, and its time is measured all the same
                self._loop.call_soon_threadsafe(self._turned)

    def _turned(self) -> None:
        self._turned_at = self._clock.monotonic()

    @property
    def _own_place(self) -> str:
        return place_of(self._thread)

    def _end(self, reason: str, places: list[str]) -> None:
        said = threading.Event()

        def say() -> None:
            found = places
            with suppress(Exception):  # border: what is said of the end must not keep it off
                found = [*self._places(), *places]
            log.error("process ended", reason=reason, places=found or [self._own_place])
            if self.code is None:
                self._farewell()
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            said.set()

        self._watchman.attend(say, "last words")
        said.wait(SAYING_SECONDS)
        self._leave(ExitCode.ABANDONED if self.code is None else self.code)


def _other_threads() -> list[str]:
    """Where the threads are that the interpreter waits for."""
    main = threading.main_thread()
    return [
        f"{each.name}: {place_of(each.ident)}" for each in threading.enumerate() if each is not main and not each.daemon
    ]
