"""Undecodable: what happens to bodies that a topic's handler cannot read.

One such message is the producer's error, and goes where the setting says. Many in a row are more likely ours, a bad
deploy: then the queues are held, so that it does not empty a topic. A body that can be read ends the row.
"""

from __future__ import annotations

from typing import Any, Literal

import structlog

from framework.core.results import Result
from framework.errors import BodyUnavailable, BodyUndecodable
from framework.model.message import Message
from framework.model.outcome import DeadLetter, Drop, Outcome, RetryLater
from framework.services.recurring import Recurring

log = structlog.get_logger()

Policy = Literal["dead_letter", "retry", "hold", "drop"]


class Undecodable:
    """One per topic of a group. Threads share it; a count that two raise at once may miss one, which does no harm."""

    __slots__ = ("_group", "_limit", "_policy", "lines", "row")

    def __init__(self, group: str, policy: Policy, limit: int, lines: Recurring | None = None) -> None:
        self._group, self._policy, self._limit, self.lines = group, policy, limit, lines
        self.row = 0
        """Bodies in a row that could not be read. A body that is read sets it to 0."""

    def judged(self, message: Message, error: BodyUndecodable) -> Result | BodyUnavailable:
        """The end of a message that could not be read; BodyUnavailable holds its queue."""
        setting = f"consumers.{self._group}.undecodable"
        if self._policy == "hold":
            return BodyUnavailable(f"{error}; fix the handler, or change {setting}")
        if self._limit and self.row >= self._limit:
            row = f"{self.row} bodies in a row could not be decoded"
            return BodyUnavailable(f"{row}, now: {error}; fix the handler, or raise {setting}_max")
        self.row += 1
        place: dict[str, Any] = {
            "group": self._group, "topic": message.topic, "queue": str(message.queue), "offset": message.queue_offset,
            "message_id": message.message_id, "reason": str(error), "then": self._policy, "in_a_row": self.row,
        }  # fmt: skip
        if self.lines is None:
            log.warning("body undecodable", **place)
        else:
            self.lines.say("warning", "body undecodable", (message.topic,), **place)
        return Result(self._outcome(str(error)), "exception", error_type=type(error).__name__)

    def _outcome(self, reason: str) -> Outcome:
        if self._policy == "drop":
            return Drop("undecodable", reason)
        return RetryLater(reason=reason) if self._policy == "retry" else DeadLetter(reason)

    def __repr__(self) -> str:
        return f"<Undecodable {self._group}: {self._policy}, {self.row} in a row>"
