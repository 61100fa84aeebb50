"""Deadline: for how long to look for failures, in real time; the first Ctrl-C is the end of it, too.

Nothing is interrupted: who looks asks between two runs. The second Ctrl-C ends the program.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

ECHO_S = 0.5
"""One Ctrl-C may arrive twice: it reaches the whole process group, and `make` passes it on."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Deadline:
    """Over when its time is, or when it was interrupted."""

    def __init__(self, seconds: float, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._begun = now()
        self._seconds = seconds
        self._interrupted_at: float | None = None

    @property
    def passed_s(self) -> float:
        return self._now() - self._begun

    @property
    def left_s(self) -> float:
        return max(0.0, self._seconds - self.passed_s)

    @property
    def is_interrupted(self) -> bool:
        return self._interrupted_at is not None

    def is_over(self) -> bool:
        return self.is_interrupted or self.left_s == 0.0

    def interrupt(self) -> None:
        now = self._now()
        if self._interrupted_at is not None and now - self._interrupted_at > ECHO_S:
            raise KeyboardInterrupt
        if self._interrupted_at is None:
            self._interrupted_at = now


@contextmanager
def deadline(seconds: float) -> Iterator[Deadline]:
    """Within, SIGINT and SIGTERM end the time."""
    made = Deadline(seconds)

    def note(_number: int, _frame: FrameType | None) -> None:
        made.interrupt()

    before = {number: signal.signal(number, note) for number in SIGNALS}
    try:
        yield made
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
