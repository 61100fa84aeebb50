"""Night watch: a plugin of this application that watches the whole and not single messages.

It counts messages per pull result, and logs what you may want to know in the morning: which queues came and went, which
were held and why, and which order took too long. At the end it logs the sums.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import structlog

from framework import Delivery, MessageQueue
from framework.hooks import ChunkSummary, hookimpl

log = structlog.get_logger()


class NightWatch:
    """All of these hooks are called on the event loop, so there is no lock."""

    def __init__(self) -> None:
        self.handled: Counter[str] = Counter()
        self.bytes: Counter[str] = Counter()
        self.busy_ms: Counter[str] = Counter()
        self.committed: dict[MessageQueue, int] = {}
        self.seen: Counter[str] = Counter()

    @hookimpl
    def after_chunk(self, summary: ChunkSummary) -> None:
        self.handled[summary.group] += summary.handled
        self.bytes[summary.group] += summary.bytes
        self.busy_ms[summary.group] += round(summary.elapsed_ms)

    @hookimpl
    def delivery_stuck(self, delivery: Delivery, age_ms: int) -> None:
        self.seen["stuck"] += 1
        log.warning("watch: stuck", group=delivery.group, keys=list(delivery.message.keys), age_ms=age_ms)

    @hookimpl
    def assignment_changed(self, group: str, gained: Sequence[MessageQueue], lost: Sequence[MessageQueue]) -> None:
        self.seen["moved"] += len(gained) + len(lost)
        for queue in lost:
            self.committed.pop(queue, None)
        log.debug("watch: queues", group=group, gained=len(gained), lost=len(lost))

    @hookimpl
    def offsets_committed(self, offsets: Mapping[MessageQueue, int]) -> None:
        self.committed.update(offsets)

    @hookimpl
    def queue_held(self, queue: MessageQueue, reason: str) -> None:
        self.seen["held"] += 1
        log.info("watch: held", queue=str(queue), reason=reason)

    @hookimpl
    def app_stopping(self) -> None:
        log.info("watch: so far", **self.sums())

    def sums(self) -> dict[str, Any]:
        return {
            "handled": dict(self.handled), "bytes": dict(self.bytes), "busy_ms": dict(self.busy_ms),
            "queues_committed": len(self.committed), **self.seen,
        }  # fmt: skip
