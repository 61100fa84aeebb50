"""Audit: appends one JSON line per delivery to a file, and if asked to, one per message that the application sends.

Lines are collected and written together, so a message costs a line of text and no system call. A crash loses the lines
that were not written yet, never a message.
"""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from framework import Message, SendResult
from framework.harmless import escaped
from framework.hooks import hookimpl
from framework.model.delivery import Delivery
from framework.model.outcome import Outcome
from framework.settings.units import Duration
from framework_audit.summary import Summary

# A disk that is full for long must not fill the memory, too: beyond this the oldest lines are dropped.
LINES_MAX = 10_000
SENDER = "SENDER"


class AuditSettings(BaseModel):
    """`plugins.settings.audit`."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    file: str = ""
    """The file that lines are written to. Empty: there are no lines."""
    flush_lines: Annotated[int, Field(ge=1, le=LINES_MAX)] = 256
    """Lines per write."""
    flush_after: Duration = 1_000
    """How old a line may get before the end of the next delivery writes it."""
    sends: bool = False
    """Whether messages that the application sends have lines, too."""
    sender: str = ""
    """The property `SENDER` of messages that the application sends. Empty: no property."""


class Audit:
    """The plugin. Deliveries end on the event loop and on worker threads, hence the lock."""

    def __init__(self, settings: AuditSettings) -> None:
        self._file, self._path = settings.file, Path(settings.file)
        self._lines_max = settings.flush_lines
        self._age_max = settings.flush_after / 1000
        self._lock = threading.Lock()
        self._lines: list[str] = []
        self._oldest: float | None = None
        self._sender = {SENDER: settings.sender}
        self._is_stopping = False
        self.given_up = 0
        """Lines that could not be written and were too many to keep."""
        if not settings.file:
            # Not implemented then: a hook without an implementation costs nothing per message.
            self.after_consume = None  # type: ignore[method-assign, assignment]  # which is what takes it away
        if not settings.file or not settings.sends:
            self.after_send = None  # type: ignore[method-assign, assignment]  # the same
        if not settings.sender:
            self.before_send = None  # type: ignore[method-assign, assignment]  # the same

    @staticmethod
    @hookimpl
    def register_settings() -> type[AuditSettings]:
        return AuditSettings

    @hookimpl
    def register_commands(self) -> dict[str, Summary]:
        return {"audit": Summary(self._file)}

    @hookimpl
    def after_consume(self, delivery: Delivery, outcome: Outcome, elapsed_ms: float) -> None:
        self._add(described(delivery, outcome, elapsed_ms), delivery.started + elapsed_ms / 1000)

    @hookimpl
    def before_send(self) -> dict[str, str]:
        return self._sender

    @hookimpl
    def after_send(
        self, message: Message, result: SendResult | None, error: BaseException | None, elapsed_ms: float
    ) -> None:
        self._add(sent(message, result, error, elapsed_ms), None)

    def _add(self, line: dict[str, Any], ended: float | None) -> None:
        """`ended` is a delivery's; a send has no time, and does not age."""
        text = escaped(json.dumps(line, ensure_ascii=False))  # no sign in it ends a line, or moves a cursor
        with self._lock:
            self._lines.append(text)
            is_due = len(self._lines) >= self._lines_max
            if ended is not None:
                self._oldest = ended if self._oldest is None else self._oldest
                is_due = is_due or ended - self._oldest >= self._age_max
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
        # For this user alone, whatever the umask says: it tells of every message.
        with os.fdopen(
            os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600), "ab"
        ) as stream:
            stream.write(text.encode("utf-8", "surrogateescape"))
        self._lines.clear()
        self._oldest = None


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


def sent(message: Message, result: SendResult | None, error: BaseException | None, elapsed_ms: float) -> dict[str, Any]:
    """The line of a message that was sent. It is in no group."""
    return {
        "topic": message.topic,
        "queue": str(result.queue) if result else None,
        "offset": result.queue_offset if result else None,
        "message_id": result.message_id if result else message.message_id,
        "outcome": "Sent" if error is None else type(error).__name__,
        "elapsed_ms": round(elapsed_ms, 3),
    }
