"""Lines: a stream that log lines are written to, whole and one at a time, also in a child that was just forked.

A child has its parent's locks as they were, and none of its threads. Forked while another thread is writing, it would
wait at its first line for a thread that is not there. So a fork waits until no line is being written, within a limit.

A line that cannot be written is counted, and nobody who logs hears of it; once lines are written again, one says how
many were lost.
"""

from __future__ import annotations

import os
import threading
from typing import Any

import structlog

from framework.runtime.logs import streams

PATIENCE_SECONDS = 1.0  # whoever reads our lines may have stopped reading


class _Turn:
    """Whose turn it is to write; one for all streams, since a fork has to wait for all of them."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._forking = threading.local()

    def before_fork(self) -> None:
        self._forking.has_waited = self.lock.acquire(timeout=PATIENCE_SECONDS)

    def in_parent(self) -> None:
        if self._forking.has_waited:
            self.lock.release()

    def in_child(self) -> None:
        self.lock = threading.Lock()


_turn = _Turn()
os.register_at_fork(before=_turn.before_fork, after_in_parent=_turn.in_parent, after_in_child=_turn.in_child)


class Lines:
    """What structlog's bound loggers write to."""

    def __init__(self, target: Any) -> None:
        self._target = target
        self._loss: streams.Loss | None = None
        """Of a stream that fails itself; those of our commands don't."""

    def msg(self, text: str) -> None:
        with _turn.lock:
            try:
                self._target.write(text + "\n")
                self._target.flush()
            except Exception as error:  # noqa: BLE001 - border: whatever the lines go to
                self._loss = self._loss or streams.Loss("log")
                self._loss.lost(1, f"{type(error).__name__}: {error}")
                return
        if self._loss is not None:
            self._loss.written()
        for name, count, reason in streams.news():
            structlog.get_logger().warning("lines lost", stream=name, count=count, reason=reason)

    log = debug = info = warn = warning = msg
    fatal = failure = err = error = critical = exception = msg

    def __repr__(self) -> str:
        return f"<Lines to {getattr(self._target, 'name', self._target)!r}>"
