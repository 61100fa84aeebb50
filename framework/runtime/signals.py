"""Signals of a process that drains: the first one asks for it, the second one leaves at once. SIGHUP: read settings.

The only file that installs signal handlers. It does not know what draining is.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from framework.net.real_world import RealClock

# One wish may arrive twice: Ctrl-C reaches a whole process group, and a parent in it (make, a supervisor) passes it on.
ECHO_SECONDS = 0.1
LEAVE_NOW = 130  # what shells show for a process that Ctrl-C ended
SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def draining(
    drain: Callable[[], object],
    leave: Callable[[], None] | None = None,
    reload: Callable[[], object] | None = None,
) -> Iterator[None]:
    """Within, the first SIGINT or SIGTERM calls `drain`, the second `leave` and ends the process with 130.

    SIGHUP calls `reload`. In a terminal it means that the terminal is gone, and that is a wish to end.

    Plain handlers and not the event loop's: those wait for the loop, and a handler that never suspends holds the loop.
    So `drain` runs between two instructions of whatever is going on; it may set a flag or call `call_soon_threadsafe`.
    """
    first: float | None = None
    process = os.getpid()

    def received(number: int, frame: FrameType | None) -> None:
        nonlocal first
        if os.getpid() != process:  # a child that a handler forked: whoever ends it means it, and not us
            signal.signal(number, before[signal.Signals(number)])
            os.kill(os.getpid(), number)
            return
        now = RealClock.monotonic()
        if first is None:
            first = now
            drain()
            return
        if now - first < ECHO_SECONDS:
            return
        if leave is not None:
            leave()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(LEAVE_NOW)

    def hung_up(number: int, frame: FrameType | None) -> None:
        if reload is None or (sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()):
            received(number, frame)
        else:
            reload()

    before = {number: signal.signal(number, received) for number in SIGNALS}
    before[signal.SIGHUP] = signal.signal(signal.SIGHUP, hung_up)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
