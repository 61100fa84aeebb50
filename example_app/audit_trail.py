"""Audit trail: a plugin of this application, in one file. It writes one line of JSON per delivery.

A plugin is an object with some of the hooks. This one says which settings it has, and is called after each delivery.
Nothing else in the application knows of it.
"""

from __future__ import annotations

import json
import threading
from pathlib import Path

from pydantic import BaseModel

from framework import Delivery
from framework.hooks import hookimpl
from framework.model.outcome import Outcome

GATHERED = 20  # lines that are written together
KEPT = 10_000  # while the file cannot be written; older ones are given up, so that a full disk is no full memory, too


class AuditTrailSettings(BaseModel):
    """`plugins.settings.audit_trail`."""

    file: Path = Path("build/audit-trail.jsonl")
    """Where the lines go, one a delivery; its folder is made."""


class AuditTrail:
    """Handlers run on the event loop and on threads, and the hooks where the handlers do: hence the lock."""

    def __init__(self, settings: AuditTrailSettings) -> None:
        self._path, self._lock = settings.file, threading.Lock()
        self._lines: list[str] = []
        self._gathers = True

    @staticmethod
    @hookimpl
    def register_settings() -> type[AuditTrailSettings]:
        return AuditTrailSettings

    @hookimpl
    def after_consume(self, delivery: Delivery, outcome: Outcome, elapsed_ms: float) -> None:
        message = delivery.message
        line = {
            "group": delivery.group,
            "key": " ".join(message.keys),
            "message_id": message.message_id,
            "attempt": message.attempt,
            "outcome": type(outcome).__name__,
            "reason": getattr(outcome, "reason", ""),
            "elapsed_ms": round(elapsed_ms, 3),
        }
        with self._lock:
            self._lines.append(json.dumps(line) + "\n")
            if len(self._lines) >= GATHERED or not self._gathers:
                self._write()

    @hookimpl
    def app_stopping(self) -> None:
        """Deliveries that still run end after this: from here on each line is written at once."""
        with self._lock:
            self._gathers = False
            self._write()

    def _write(self) -> None:
        """What cannot be written stays for the next time; whoever calls hooks logs the failure."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a") as file:
                file.writelines(self._lines)
        except OSError:
            del self._lines[:-KEPT]
            raise
        self._lines.clear()
