"""Audit: appends one JSON line per delivery to a file.

Lines are collected and written together, so a message costs a line of text and no system call. A crash loses the lines
that were not written yet, never a message.
"""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from framework.hooks import hookimpl
from framework.model.delivery import Delivery
from framework.model.outcome import Outcome
from framework.settings.units import Duration
from framework_audit.summary import Summary

# A disk that is full for long must not fill the memory, too: beyond this the oldest lines are dropped.
LINES_MAX = 10_000


class AuditSettings(BaseModel):
    """`plugins.settings.audit`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: str = ""
    """The file that lines are written to. Empty: the plugin does nothing."""
    flush_lines: Annotated[int, Field(ge=1, le=LINES_MAX)] = 256
    """Lines per write."""
    flush_after: Duration = 1_000
    """How old a line may get before the end of the next delivery writes it."""


class Audit:
    """The plugin. Deliveries end on the event loop and on worker threads, hence the lock."""

    def __init__(self, settings: AuditSettings) -> None:
        self._file, self._path = settings.file, Path(settings.file)
        self._lines_max = settings.flush_lines
        self._age_max = settings.flush_after / 1000
        self._lock = threading.Lock()
        self._lines: list[str] = []
        self._oldest = 0.0
        self._is_stopping = False
        self.given_up = 0
        """Lines that could not be written and were too many to keep."""
        if not settings.file:
            # Not implemented then: a hook without an implementation costs nothing per message.
            self.after_consume = None  # type: ignore[method-assign, assignment]  # which is what takes it away

    @staticmethod
    @hookimpl
    def register_settings() -> type[AuditSettings]:
        return AuditSettings

    @hookimpl
    def register_commands(self) -> dict[str, Summary]:
        return {"audit": Summary(self._file)}

    @hookimpl
    def after_consume(self, delivery: Delivery, outcome: Outcome, elapsed_ms: float) -> None:
        line = json.dumps(described(delivery, outcome, elapsed_ms), ensure_ascii=False)
        ended = delivery.started + elapsed_ms / 1000
        with self._lock:
            if not self._lines:
                self._oldest = ended
            self._lines.append(line)
            is_due = len(self._lines) >= self._lines_max or ended - self._oldest >= self._age_max
            if is_due or self._is_stopping:
                self._write()

    @hookimpl
    def app_stopping(self) -> None:
        """Deliveries that still run end after this, so from here on every line is written at once."""
        with self._lock:
            self._is_stopping = True
            self._write()

    def _write(self) -> None:
        """Append and let go of the file, so that it may be moved away at any time. An error keeps the lines."""
        if not self._lines:
            return
        surplus = len(self._lines) - LINES_MAX
        if surplus > 0:
            del self._lines[:surplus]
            self.given_up += surplus
        text = "\n".join(self._lines) + "\n"
        with self._path.open("ab") as stream:
            stream.write(text.encode("utf-8", "surrogateescape"))
        self._lines.clear()


def described(delivery: Delivery, outcome: Outcome, elapsed_ms: float) -> dict[str, Any]:
    """One delivery's line, as a dictionary."""
    message = delivery.message
    return {
        "group": delivery.group,
        "topic": message.topic,
        "queue": str(message.queue),
        "offset": message.queue_offset,
        "message_id": message.message_id,
        "attempt": message.attempt,
        "outcome": type(outcome).__name__,
        "elapsed_ms": round(elapsed_ms, 3),
    }
