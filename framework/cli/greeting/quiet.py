"""What `dev` and workers do to the log: lines that the banner makes needless are left out, and each names its worker.

Knows events by their names alone. A handler's own lines all stay.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import structlog
from structlog.typing import Processor

from framework.services.pool.run import RUNNING

SHOWN_OTHERWISE = frozenset({
    "app started", "app stopped", "app stopping", "assignment changed", "connected", "consumer configured",
    "disconnected", "message retried", "message retried: more", "plugin loaded", "queue locked", "queue positioned",
    "route changed", "settings loaded", "topic found", "topic not found yet",
})  # fmt: skip
"""Info lines of every start and stop, and of retries: the banner and the tail say it in fewer."""


def processors(*, worker: int | None, in_dev: bool) -> list[Processor]:
    """Those of this process."""
    found: list[Processor] = [without_the_usual] if in_dev else []
    return found if worker is None else [*found, WithWorker(worker)]


def without_the_usual(logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Drops those lines. What a handler says stays, by the standard library (`logger`) too; so does a recovery."""
    is_usual = method == "info" and event["event"] in SHOWN_OTHERWISE
    if is_usual and RUNNING.get() is None and not {"logger", "after_ms"} & event.keys():
        raise structlog.DropEvent
    return event


class WithWorker:
    """Puts the number of this process among its siblings into each line."""

    def __init__(self, worker: int) -> None:
        self._worker = worker

    def __call__(self, logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        event.setdefault("worker", self._worker)
        return event
