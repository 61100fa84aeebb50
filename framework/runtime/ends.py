"""Ends: what becomes of messages of one group whose handlers ended otherwise than in plain success.

An outcome is named, decided upon by the core, counted, reported, and carried out by whoever can: a broker keeps a copy,
the message is tried again in place, or it is settled here.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from framework import marks
from framework.core.broadcasting import decide_broadcasting
from framework.core.chunk import Chunk
from framework.core.results import result_of
from framework.core.retry import SendBack, Settle, Stay, cut_short, decide
from framework.model.delay_levels import LEVEL_MAX
from framework.model.durations import to_text
from framework.ports import Clock
from framework.runtime.group.broadcasting import Broadcasting
from framework.runtime.group.plan import GroupPlan, Handling
from framework.runtime.reports import GroupReports
from framework.services.crew.run import MessageCounts
from framework.services.outcome import unopened
from framework.services.outcome.settle import Parked, Settler
from framework.services.queue.pull import PullLoop

log = structlog.get_logger()


class Outcomes:
    """One per group."""

    def __init__(
        self,
        plan: Callable[[], GroupPlan],
        *,
        counts: MessageCounts,
        settler: Settler,
        holder: unopened.Unopened,
        alone: Broadcasting | None,
        reports: GroupReports,
        clock: Clock,
        handling_of: Callable[[str], Handling],
    ) -> None:
        self._plan, self._counts, self._settler, self._held, self._alone = plan, counts, settler, holder, alone
        self._reports, self._clock, self._handling_of = reports, clock, handling_of
        self._is_cut_told = False

    def not_success(self, queue: PullLoop, chunk: Chunk, index: int, result: object, started: float) -> None:
        """Not plain success: name the outcome, decide, carry out."""
        if chunk.window.is_closed:
            marks.sometimes("a handler ended after its queue was gone")
            self._counts.late += 1
            return
        plan, message = self._plan(), chunk.messages[index]
        result = plan.judged(message, result)
        if isinstance(result, unopened.CAUSES):
            is_async = self._handling_of(queue.queue.topic).is_async
            self._held.put(queue, chunk, index, result, is_async=is_async)
            return
        elapsed_ms = (self._clock.monotonic() - started) * 1000
        end = result_of(result)
        outcome = end.outcome
        decide_here = decide if self._alone is None else decide_broadcasting
        decision: Settle | SendBack | Stay = decide_here(outcome, message.attempt, plan.max_retries)
        self._counts.add_kind(end.kind)
        if end.error is not None:
            self._reports.failed(plan.name, message, end.error)
        now_ms = self._clock.monotonic_ms()
        if isinstance(decision, Stay):
            assert self._alone is not None, f"{decision} is for queues that keep what fails"
            queue.rates.failed(now_ms)
            self._counts.add("retry")
            self._reports.ended("retry", plan.name, message, outcome, elapsed_ms, error=end.error_type)
            is_async = self._handling_of(queue.queue.topic).is_async
            self._alone.again.put(queue, chunk, index, pause_ms=decision.pause_ms, is_async=is_async)
            return
        if not isinstance(decision, SendBack):
            queue.rates.handled(now_ms, 1, 0.0)
            self._counts.add(decision.event)
            chunk.finish(index)
            if decision.event != "handled":  # plain success was told by the observer around the call
                self._reports.ended(decision.event, plan.name, message, outcome, elapsed_ms, error=end.error_type)
            if chunk.is_finished:
                queue.left(chunk, 0)
            return

        queue.rates.failed(now_ms)
        if decision.level == LEVEL_MAX and not self._is_cut_told and (wish_ms := cut_short(outcome)) is not None:
            self._is_cut_told = True
            log.warning(
                "delay shortened",
                group=plan.name, topic=queue.queue.topic, wanted=to_text(wish_ms),
                reason="brokers have delay levels up to two hours",
            )  # fmt: skip

        def settled(parked: Parked) -> None:
            self._counts.add(decision.event)
            if parked.chunk.finish(parked.index):
                queue.left(parked.chunk, 0)
            self._reports.ended(
                decision.event, plan.name, message, outcome, elapsed_ms, reason=decision.reason, error=end.error_type
            )

        is_dead = decision.event == "dead_lettered"
        words = self._reports.words(decision.reason, end.error_type) if is_dead else None
        self._settler.put(chunk, index, decision, settled, queue.quiet.ring, words)
