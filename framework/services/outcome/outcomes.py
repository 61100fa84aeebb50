"""Outcomes: what becomes of a group's messages whose handlers did not plainly succeed.

An outcome is named, decided upon by the core, counted and reported. Then it is carried out: a broker keeps a copy, the
message is retried in place, or it is settled here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import structlog

from framework.core.chunk import Chunk
from framework.core.results import Result, result_of
from framework.core.retry import SendBack, Settle, Stay, cut_short
from framework.model.death_reason import DeathReason
from framework.model.delay_levels import LEVEL_MAX
from framework.model.durations import to_text
from framework.model.message import Message
from framework.model.outcome import Outcome
from framework.ports import Clock
from framework.services.outcome.again import CAUSES, HeldMessages, RetryInPlace
from framework.services.outcome.retry_sender import Parked, RetrySender
from framework.services.pool.run import MessageCounts
from framework.services.queue.pull import PullLoop

log = structlog.get_logger()

Decide = Callable[[Outcome, int, int], Settle | SendBack | Stay]
"""What comes of an outcome, the attempt that it is of, and how many retries there may be."""

Ended = Callable[[PullLoop, object, Message, Result | None], None]
"""What is told of how a message ended that was not plain success, with what names its run: `Trials.ended`."""


class ReportsOutcomes(Protocol):
    """Reports deliveries that were not plain success, and what they block (`runtime/reports.py`)."""

    def ended(
        self, event: str, group: str, message: Message, outcome: Outcome, elapsed_ms: float, *, reason: str = "",
        error: str = "",
    ) -> None: ...  # fmt: skip
    def failed(self, group: str, message: Message, error: Exception) -> None: ...
    def death_reason(self, reason: str, error: str, line: str = "") -> DeathReason: ...
    def blocked(self, group: str, message: Message, queue: str, reason: str, named: Mapping[str, Any]) -> None: ...


class Outcomes:
    """One per group that is not orderly."""

    def __init__(
        self,
        group: str,
        max_retries: int,
        decide: Decide,
        *,
        counts: MessageCounts,
        retry_sender: RetrySender,
        retries: RetryInPlace,
        held: HeldMessages,
        reports: ReportsOutcomes,
        clock: Clock,
        ended: Ended,
    ) -> None:
        """`ended` hears of each, before anything follows from it."""
        self._group, self._max_retries, self._decide = group, max_retries, decide
        self._counts, self._retry_sender, self._retries, self._held = counts, retry_sender, retries, held
        self._reports, self._clock, self._ended = reports, clock, ended
        self._has_warned = False
        """Of a delay that brokers have no level for."""

    def not_success(self, pull: PullLoop, chunk: Chunk, index: int, result: object, started: float) -> None:
        """Not plain success: name the outcome, decide, carry out."""
        if chunk.window.is_closed:
            self._counts.late += 1
            return
        group, message = self._group, chunk.messages[index]
        result = pull.judged(message, result)
        if isinstance(result, CAUSES):
            self._ended(pull, chunk, message, None)
            self._held.put(pull, chunk, index, result)
            return
        elapsed_ms = (self._clock.monotonic() - started) * 1000
        end = result_of(result)
        self._ended(pull, chunk, message, end)
        outcome = end.outcome
        decision = self._decide(outcome, message.attempt, self._max_retries)
        self._counts.add_kind(end.kind)
        if end.error is not None:
            self._reports.failed(group, message, end.error)
        now_ms = self._clock.monotonic_ms()
        if isinstance(decision, Stay):
            pull.rates.failed(now_ms)
            self._counts.add("retry")
            self._reports.ended("retry", group, message, outcome, elapsed_ms, error=end.error_type)
            self._retries.put(pull, chunk, index, pause_ms=decision.pause_ms)
            return
        if isinstance(decision, Settle):
            pull.rates.handled(now_ms, 1, 0.0)
            self._counts.add(decision.event)
            chunk.finish(index)
            if decision.event != "handled":  # plain success was reported by the observer around the call
                self._reports.ended(decision.event, group, message, outcome, elapsed_ms, error=end.error_type)
            if chunk.is_finished:
                pull.left(chunk, 0)
            return

        copy = decision
        pull.rates.failed(now_ms)
        if copy.level == LEVEL_MAX and not self._has_warned and (wish_ms := cut_short(outcome)) is not None:
            self._has_warned = True
            log.warning(
                "delay shortened",
                group=group, topic=pull.queue.topic, wanted=to_text(wish_ms),
                reason="brokers have delay levels up to two hours",
            )  # fmt: skip

        def settled(parked: Parked) -> None:
            self._counts.add(copy.event)
            if parked.chunk.finish(parked.index):
                pull.left(parked.chunk, 0)
            self._reports.ended(
                copy.event, group, message, outcome, elapsed_ms, reason=copy.reason, error=end.error_type
            )

        is_dead = copy.event == "dead_lettered"
        why = self._reports.death_reason(copy.reason, end.error_type, end.line) if is_dead else None
        self._retry_sender.put(chunk, index, copy, settled, pull.quiet.ring, why)
