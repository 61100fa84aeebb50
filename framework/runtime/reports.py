"""Reports: what is logged about deliveries that were not plain success, and what `on_event` gets of every delivery.

Plain success is reported only where `on_event` is set: `observer` is then put around the handlers at start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from framework.model.death_reason import REASON_BYTES_MAX, DeathReason, plain
from framework.model.delivery import Delivery
from framework.model.message import Message
from framework.model.namespaces import unwrap
from framework.model.outcome import Ack, Drop, Kind, Outcome
from framework.ports import Clock, Workers
from framework.runtime.group.plan import GroupPlan
from framework.services.recurring import DEAD_LETTERS_FIRST, LOOK_SECONDS, Recurring

Event = dict[str, Any]
OnEvent = Callable[[Event], None]


class Reports:
    """One per application."""

    def __init__(self, on_event: OnEvent | None, workers: Workers, namespace: str = "") -> None:
        self.on_event, self.workers, self.namespace = on_event, workers, namespace

    def observer(self, *, in_threads: bool) -> Callable[[Delivery, Outcome, float, Kind], None] | None:
        """What to put after each handler so that plain success is reported too; None without `on_event`."""
        on_event = self.on_event
        if on_event is None:
            return None

        def tell(delivery: Delivery, outcome: Outcome, elapsed_ms: float, _: Kind) -> None:
            if type(outcome) is not Ack:
                return  # reported when it is settled
            event = described("handled", delivery.group, delivery.message, outcome, elapsed_ms, self.namespace)
            if in_threads:
                self.workers.call_soon(lambda: on_event(event))
            else:
                on_event(event)

        return tell


class GroupReports:
    """One per group, for what was not plain success: the events, and lines of the log that do not flood it.

    On the loop's thread.
    """

    def __init__(self, reports: Reports, clock: Clock, member: str = "", *, keeps_copies: bool = True) -> None:
        """`keeps_copies`: not a broadcasting group, of whose messages nobody keeps one."""
        self._reports, self._clock, self._member, self._keeps_copies = reports, clock, member, keeps_copies
        self.lines = Recurring(clock)

    async def run(self, plan: Callable[[], GroupPlan]) -> None:
        """Sum up what was not written, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            for lines in self._all_lines(plan()):
                lines.look()

    def close(self, plan: GroupPlan) -> None:
        for lines in self._all_lines(plan):
            lines.close()

    def _all_lines(self, plan: GroupPlan) -> Iterator[Recurring]:
        yield self.lines
        for handling in plan.handling.values():
            if handling.undecodable.lines is not None:
                yield handling.undecodable.lines

    def death_reason(self, reason: str, error: str, line: str = "") -> DeathReason:
        """What a message is given up with, from now on."""
        return DeathReason(reason, error, self._clock.now_ms(), self._member, line)

    def ended(
        self,
        event: str,
        group: str,
        message: Message,
        outcome: Outcome,
        elapsed_ms: float,
        *,
        reason: str = "",
        error: str = "",
    ) -> None:
        """A delivery was settled in some other way than plain success."""
        reason = reason or getattr(outcome, "reason", "")
        if self._reports.on_event is not None:
            fields = described(event, group, message, outcome, elapsed_ms, self._reports.namespace)
            self._reports.on_event({**fields, "reason": reason or None, "error": error or None})
        kind = (message.topic, error or type(outcome).__name__)
        if event == "dead_lettered":
            self.lines.say(
                "warning", "message dead-lettered", kind, first=DEAD_LETTERS_FIRST,
                **_place(group, message), keys=message.keys, attempts=message.attempt,
                reason=plain(reason, REASON_BYTES_MAX), error=error or None,
            )  # fmt: skip
        elif event == "retry" and not error:  # what was raised has a line of its own
            self.lines.say(
                "info", "message retried", kind, first=0,
                **_place(group, message), attempt=message.attempt, reason=plain(reason, REASON_BYTES_MAX),
            )  # fmt: skip
        elif event == "dropped" and not (self._keeps_copies or isinstance(outcome, Drop)):
            # It is in nobody's dead letters, so this line is all that is left of it.
            self.lines.say(
                "warning", "message dropped", kind, first=DEAD_LETTERS_FIRST,
                **_place(group, message), keys=message.keys, attempt=message.attempt,
                reason=reason or type(outcome).__name__, error=error or None,
            )  # fmt: skip

    def failed(self, group: str, message: Message, error: Exception) -> None:
        """A handler raised. The traceback goes with it: nothing else tells its author what went wrong."""
        self.lines.say(
            "warning", "handler failed", (message.topic, type(error).__name__),
            **_place(group, message), attempt=message.attempt, error=f"{type(error).__name__}: {error}",
            exc_info=error,
        )  # fmt: skip

    def blocked(self, group: str, message: Message, queue: str, reason: str, named: Mapping[str, Any]) -> None:
        """A line of an orderly queue stands behind this message."""
        self.lines.say(
            "info", "queue blocked", (message.topic,),
            group=group, queue=queue, offset=message.queue_offset, reason=reason, **named,
        )  # fmt: skip


def _place(group: str, message: Message) -> dict[str, Any]:
    return {
        "group": group, "topic": message.topic, "queue": str(message.queue), "offset": message.queue_offset,
        "message_id": message.message_id,
    }  # fmt: skip


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
