"""Finds a step that never returns, by the processor time it burns, since virtual time stops meanwhile.

A loop without an `await` that suspends would hang the whole simulation, and a test run with it. It works in the main
thread only, where Python runs signal handlers; elsewhere it watches nothing. It uses a timer that no test runner uses.
"""

from __future__ import annotations

import signal
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StuckStep(KeyboardInterrupt):
    """Raised inside the step that hangs. No `except Exception` of the code under test may swallow it."""


@contextmanager
def watched(cpu_seconds: float) -> Iterator[None]:
    """Raise StuckStep, which names the place, once this much processor time is used."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(_number: int, frame: FrameType | None) -> None:
        where = traceback.extract_stack(frame)[-1]
        raise StuckStep(f"{cpu_seconds:g}s of processor time; now in {where.name} ({where.filename}:{where.lineno})")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, cpu_seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
