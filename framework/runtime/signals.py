"""Signals of a process that drains: the first one asks for it, the second one leaves at once. SIGHUP: read settings.

The only file that installs signal handlers. It does not know what draining is, and imports next to nothing: signals are
noted from the first instruction of a command on, and passed to the one that drains once it exists. They are handled
between two instructions, and not by the event loop: a handler that never suspends blocks the loop.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from framework.net.real_clock import RealClock

# One wish may arrive twice: Ctrl-C reaches a whole process group, and a parent in it (make, a supervisor) passes it on.
ECHO_SECONDS = 0.1
LEAVE_NOW = 130  # what shells show for a process that Ctrl-C ended
SIGNALS = (signal.SIGINT, signal.SIGTERM)
HARMLESS = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM)
"""Their default is to kill, without a word and without a drain. SIGUSR1 tells; the others do nothing."""


def nothing() -> None:
    return


class Wishes:
    """What the signals that have come so far ask for, and whom to tell."""

    def __init__(self) -> None:
        self.is_asked = self.is_to_reload = False
        self.drain: Callable[[], object] = nothing
        self.leave: Callable[[], object] = nothing
        self.reload: Callable[[], object] | None = None
        self.tell: Callable[[], object] = nothing
        self._first: float | None = None
        self._process = os.getpid()
        self._before: dict[signal.Signals, object] = {}

    def install(self) -> None:
        for number in SIGNALS:
            self._before[number] = signal.signal(number, self.received)
        self._before[signal.SIGHUP] = signal.signal(signal.SIGHUP, self._hung_up)
        for number in HARMLESS:
            self._before[number] = signal.signal(number, self._harmless)

    def restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # as `signal.signal` has answered it

    def received(self, number: int, frame: FrameType | None) -> None:
        if self._is_child(number):
            return
        now = RealClock.monotonic()
        if self._first is None:
            self._first, self.is_asked = now, True
            self.drain()
            return
        if now - self._first < ECHO_SECONDS:
            return
        self.leave()
        with suppress(Exception):  # as below
            sys.stderr.write("left at once by a second signal: handlers that ran are not waited for\n")
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):  # closed, or what the signal has interrupted in the middle of a write
                stream.flush()
        os._exit(LEAVE_NOW)

    def _hung_up(self, number: int, frame: FrameType | None) -> None:
        if self._is_child(number):
            return
        if sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty():
            self.received(number, frame)
        elif self.reload is not None:
            self.reload()
        else:
            self.is_to_reload = True

    def _harmless(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGUSR1 and os.getpid() == self._process:
            # On a thread: what it logs may wait for a lock that the code which was interrupted has.
            threading.Thread(target=self.tell, name="signal", daemon=True).start()

    def _is_child(self, number: int) -> bool:
        """A child that a handler forked: whoever ends it means it, and not us."""
        if os.getpid() == self._process:
            return False
        signal.signal(number, self._before[signal.Signals(number)])  # type: ignore[arg-type]  # as in `restore`
        os.kill(os.getpid(), number)
        return True


_noted: list[Wishes] = []
"""Of a command that is on its way up; one at most."""


def note() -> None:
    """From here on note what signals ask for. `draining` takes it up; until then a second one leaves at once."""
    if not _noted:
        _noted.append(wishes := Wishes())
        wishes.install()


def is_noted() -> bool:
    """Whether this process is a command of ours that ends in order, and no other program."""
    return bool(_noted)


def release() -> None:
    """Back to what they did before; for a process that was forked and is no command itself."""
    while _noted:
        _noted.pop().restore()


@contextmanager
def draining(
    drain: Callable[[], object],
    leave: Callable[[], object] = nothing,
    reload: Callable[[], object] | None = None,
    tell: Callable[[], object] = nothing,
) -> Iterator[None]:
    """Within, the first SIGINT or SIGTERM calls `drain`, the second `leave` and ends the process with 130. One that was
    noted before counts.

    SIGHUP calls `reload`. In a terminal it means that the terminal is gone, and that is a wish to end, as it is where
    there is nothing to read. SIGUSR1 calls `tell`, on a thread of its own; SIGUSR2 and SIGALRM do nothing.

    Plain handlers and not the event loop's: those wait for the loop, and a handler that never suspends holds the loop.
    So `drain` runs between two instructions of whatever is going on; it may set a flag or call `call_soon_threadsafe`.
    """
    wishes = _noted[0] if _noted else Wishes()
    wishes.drain, wishes.leave, wishes.tell = drain, leave, tell
    wishes.reload = reload if reload is not None else lambda: wishes.received(signal.SIGHUP, None)
    if not _noted:
        wishes.install()
    if wishes.is_asked:
        drain()
    elif wishes.is_to_reload:
        wishes.reload()
    try:
        yield
    finally:
        wishes.drain = wishes.leave = wishes.tell = nothing
        wishes.reload = nothing
        if not _noted:
            wishes.restore()
