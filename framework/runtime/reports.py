"""Reports: what is told about deliveries that were not plain success, and to whoever observes every one.

Plain success is told by nobody unless somebody asked: `observer` is then put around the handlers at start.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import structlog

from framework.model.delivery import Delivery
from framework.model.message import Message
from framework.model.namespaces import unwrap
from framework.model.outcome import Ack, Kind, Outcome
from framework.ports import Workers

log = structlog.get_logger()

Event = dict[str, Any]
OnEvent = Callable[[Event], None]


class Reports:
    """One per application."""

    def __init__(self, on_event: OnEvent | None, workers: Workers, namespace: str = "") -> None:
        self.on_event, self.workers, self.namespace = on_event, workers, namespace

    def ended(self, event: str, group: str, message: Message, outcome: Outcome, elapsed_ms: float) -> None:
        """A delivery was settled in some other way than plain success. On the loop's thread."""
        if self.on_event is not None:
            self.on_event(described(event, group, message, outcome, elapsed_ms, self.namespace))

    def failed(self, group: str, message: Message, error: Exception) -> None:
        """A handler raised. One line with its traceback: nothing else tells its author what went wrong."""
        log.warning(
            "handler failed",
            group=group, topic=message.topic, queue=str(message.queue), offset=message.queue_offset,
            message_id=message.message_id, attempt=message.attempt, error=f"{type(error).__name__}: {error}",
            exc_info=error,
        )  # fmt: skip

    def observer(self, *, in_threads: bool) -> Callable[[Delivery, Outcome, float, Kind], None] | None:
        """What to put after each handler so that plain success is told too; None where nobody asked."""
        on_event = self.on_event
        if on_event is None:
            return None

        def tell(delivery: Delivery, outcome: Outcome, elapsed_ms: float, _: Kind) -> None:
            if type(outcome) is not Ack:
                return  # told when it is settled
            event = described("handled", delivery.group, delivery.message, outcome, elapsed_ms, self.namespace)
            if in_threads:
                self.workers.call_soon(lambda: on_event(event))
            else:
                on_event(event)

        return tell


def described(
    event: str, group: str, message: Message, outcome: Outcome, elapsed_ms: float, namespace: str = ""
) -> Event:
    """The delivery as `run --json` prints it; names as their owner knows them."""
    return {
        "event": event,
        "group": unwrap(namespace, group),
        "topic": unwrap(namespace, message.topic),
        "queue": f"{message.queue.broker}:{message.queue.number}",
        "offset": message.queue_offset,
        "message_id": message.message_id,
        "key": " ".join(message.keys),
        "attempt": message.attempt,
        "outcome": type(outcome).__name__,
        "elapsed_ms": round(elapsed_ms, 3),
    }
