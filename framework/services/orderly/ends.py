"""What follows from an orderly handler's results: the offset moves, a message stays first, or a broker keeps it.

`core/retry.py` says what an outcome means. A result under a lease that is gone changes nothing.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import structlog

from framework import marks
from framework.client.retry_copies import RetryCopies
from framework.core.batch import BatchEnds, decide_batch
from framework.core.line import Place, Portion
from framework.core.results import Result, kind_of, result_of
from framework.core.retry import SendBack, Settle, Stay, decide_in_order, pause_ms
from framework.errors import BrokerUnreachable, FrameworkError
from framework.model.message import Message
from framework.model.outcome import Commit, Outcome, Rollback
from framework.ports import Chance
from framework.services.orderly.desk import Lane
from framework.services.outcome.again import CAUSES
from framework.services.outcome.outcomes import Decide, Ended, ReportsOutcomes
from framework.services.queue.pull import GroupSide

log = structlog.get_logger()


class OrderlyOutcomes:
    """One a group. Nothing here starts a handler."""

    def __init__(
        self,
        side: GroupSide,
        max_retries: int,
        *,
        stuck_after_ms: int,
        brokers: RetryCopies,
        reports: ReportsOutcomes,
        chance: Chance,
        decide: Decide = decide_in_order,
        ended: Ended,
    ) -> None:
        """`ended` hears of each message that was not plain success, before anything follows from it."""
        self._group, self._max_retries, self._decide = side.plan.name, max_retries, decide
        self._stuck_after_ms = stuck_after_ms
        self._brokers, self._reports, self._side, self._counts = brokers, reports, side, side.counts
        self._clock, self._chance, self._ended = side.clock, chance, ended

    def came_home(self, lane: Lane, portion: Portion, ended: int, result: object) -> None:
        """So many messages from the portion's next on were plain success, and then `result` if that is not None."""
        now_ms, pull, index = self._clock.monotonic_ms(), lane.desk.pull, portion.next
        unsaid, lane.unsaid = lane.unsaid, 0
        lane.at = None  # a lane at rest must not keep a pull's bytes alive
        if self._is_late(lane, portion, now_ms):
            pull.lost += unsaid + ended
            self._side.left(pull, unsaid + ended + (result is not None), is_late=True)
            return
        if ended:
            self._advance(lane, portion, ended)
        if unsaid or ended:
            pull.left(portion.chunk, unsaid + ended)
        if result is not None:
            self._not_success(lane, portion, index + ended, result, now_ms)

    def tell(self, lane: Lane) -> None:
        """What has ended while its worker goes on: a handler that hangs keeps no offset back."""
        unsaid, lane.unsaid = lane.unsaid, 0
        if not unsaid:
            return
        portion, pull = lane.at, lane.desk.pull
        assert portion is not None, "a worker goes along it"
        if self._is_late(lane, portion, self._clock.monotonic_ms()):
            pull.lost += unsaid
            self._side.left(pull, unsaid, is_late=True)
        else:
            lane.backoff.succeeded()
            pull.left(portion.chunk, unsaid)

    def _is_late(self, lane: Lane, portion: Portion, now_ms: int) -> bool:
        return portion.window.is_closed or not lane.desk.lease.holds(now_ms)

    def _advance(self, lane: Lane, portion: Portion, count: int) -> None:
        if lane.line.is_reported:
            log.info("queue no longer stuck", group=self._group, queue=str(lane.desk.pull.queue))
        lane.backoff.succeeded()
        lane.line.advance(portion, count)

    # Not plain success

    def _not_success(self, lane: Lane, portion: Portion, index: int, result: object, now_ms: int) -> None:
        message, pull, line = lane.line.as_tried(portion, index), lane.desk.pull, lane.line
        result = pull.judged(message, result)
        if isinstance(result, CAUSES):
            # We lack the means to open it. That is no attempt, and nothing of the message's.
            self._ended(pull, lane, message, None)
            wait_ms = lane.backoff.failed(self._chance.random())
            self._stay(lane, portion, now_ms, wait_ms, str(result) or type(result).__name__, counts=False)
            return
        end = result_of(result)
        self._ended(pull, lane, message, end)
        if end.error is not None:
            self._reports.failed(self._group, message, end.error)
        outcome = lane.outcome = end.outcome
        elapsed_ms = lane.elapsed_ms = (self._clock.monotonic() - lane.started) * 1000
        self._counts.add_kind(kind_of(end, elapsed_ms, self._stuck_after_ms))
        if line.is_manual and isinstance(result, Rollback):
            self._roll_back(lane, portion, message, result, now_ms)
            return
        decision = self._decide(outcome, message.attempt, self._max_retries)
        if not isinstance(decision, Settle):
            pull.rates.failed(now_ms)
        match decision:
            case Settle(event=event):
                lane.error = end.error_type
                self._settled(lane, portion, index, result, event, now_ms)
            case Stay(pause_ms=wait_ms, reason=reason):
                self._counts.add("retry")
                self._reports.ended("retry", self._group, message, outcome, elapsed_ms, error=end.error_type)
                self._stay(lane, portion, now_ms, wait_ms, reason, counts=True)
            case SendBack() as copy:
                # Before it is carried out: a copy that cannot be sent is sent again, and the handler is not run again.
                if line.first is portion:
                    line.copies.append((portion, index, replace(copy, error=end.error_type, line=end.line)))
                    line.last_error = copy.reason

    # Batches

    def batch_went_well(self, lane: Lane, places: list[Place]) -> None:
        """All of it was plain success."""
        if self._is_late(lane, places[0][0], self._clock.monotonic_ms()):
            lane.desk.pull.lost += len(places)
            self._side.left(lane.desk.pull, len(places), is_late=True)
            return
        self._handled(lane, places)

    def batch_came_home(self, lane: Lane, places: list[Place], results: list[object]) -> None:
        """One result per message, as the batch's call made them; fewer where one is to come again unseen."""
        now_ms, pull, line, first = self._clock.monotonic_ms(), lane.desk.pull, lane.line, places[0][0]
        if self._is_late(lane, first, now_ms):
            pull.lost += results.count(None)
            self._side.left(pull, len(places), is_late=True)
            return
        if isinstance(results[-1], CAUSES):
            cause = results.pop()
            if not results:
                wait_ms = lane.backoff.failed(self._chance.random())
                self._stay(lane, first, now_ms, wait_ms, str(cause) or type(cause).__name__, counts=False)
                return  # else it is the first of the next batch, and stays there
        places = places[: len(results)]
        elapsed_ms = lane.elapsed_ms = (self._clock.monotonic() - lane.started) * 1000
        messages = [line.as_tried(*place) for place in places]
        judged = [result_of(result) for result in results]
        for message, result, end in zip(messages, results, judged, strict=True):
            if result is not None:
                self._counts.add_kind(kind_of(end, elapsed_ms, self._stuck_after_ms))
            if end.error is not None:
                self._reports.failed(self._group, message, end.error)
        rollback = next((result for result in results if isinstance(result, Rollback)), None)
        if line.is_manual and rollback is not None:
            lane.outcome = result_of(rollback).outcome
            self._roll_back(lane, first, messages[0], rollback, now_ms)
            return
        outcomes = [end.outcome for end in judged]
        ends = decide_batch(outcomes, [message.attempt for message in messages], self._max_retries, self._decide)
        ends.copies = [
            (index, replace(copy, error=judged[index].error_type, line=judged[index].line))
            for index, copy in ends.copies
        ]
        errors = [end.error_type for end in judged]
        self._batch_ended(lane, places, messages, outcomes, errors, ends)
        self._tell_ends(lane, messages, results, judged)
        if line.is_manual and any(isinstance(result, Commit) for result in results):
            for each in line.commit(places[-1][0]):
                pull.left(each.chunk, 0)
        if ends.done < len(places) or ends.copies:
            pull.rates.failed(now_ms)
            if line.first is not None:  # else the next owner is given them
                self._batch_stays(lane, places, messages, outcomes, errors, ends)

    def _tell_ends(
        self, lane: Lane, messages: list[Message], results: list[object], judged: list[Result]
    ) -> None:  # fmt: skip
        """Of each that was not plain success, behind those that were."""
        for message, result, end in zip(messages, results, judged, strict=True):
            if result is not None:
                self._ended(lane.desk.pull, lane, message, end)

    def _batch_ended(
        self, lane: Lane, places: list[Place], messages: list[Message], outcomes: list[Outcome], errors: list[str],
        ends: BatchEnds,
    ) -> None:  # fmt: skip
        """What is in front and went well has ended, and what was dropped, wherever it stands."""
        pull, line, dropped = lane.desk.pull, lane.line, set(ends.dropped)
        for index in ends.dropped:
            line.end_one(*places[index])
            self._counts.add("dropped")
            self._reports.ended(
                "dropped", self._group, messages[index], outcomes[index], lane.elapsed_ms, error=errors[index]
            )
        # As far as nothing stays: a copy may stand behind what is tried again.
        until = min(ends.copies[0][0], ends.done) if ends.copies else ends.done
        handled = [place for index, place in enumerate(places[:until]) if index not in dropped]
        self._handled(lane, handled)
        if not handled:
            pull.left(places[0][0].chunk, 0)

    def _handled(self, lane: Lane, places: list[Place]) -> None:
        """These are past, in the order in which they stand."""
        if places and lane.line.is_reported:
            log.info("queue no longer stuck", group=self._group, queue=str(lane.desk.pull.queue))
        lane.line.advance_over(places)
        lane.backoff.succeeded()
        for chunk, ended in Counter(portion.chunk for portion, _ in places).items():
            lane.desk.pull.left(chunk, ended)

    def _batch_stays(
        self, lane: Lane, places: list[Place], messages: list[Message], outcomes: list[Outcome], errors: list[str],
        ends: BatchEnds,
    ) -> None:  # fmt: skip
        """What is given up is a broker's to keep; what is tried again waits, and all behind it."""
        line, given_up = lane.line, {index for index, _ in ends.copies}
        settled = given_up.union(ends.dropped)
        if ends.copies:
            line.copies.extend((*places[index], copy) for index, copy in ends.copies)
            first = ends.copies[0][0]
            line.after_copies.extend(places[index] for index in range(first, ends.done) if index not in settled)
            line.last_error, lane.outcome = ends.copies[0][1].reason, outcomes[first]
        if ends.stay is None:
            return
        tried = [index for index in range(ends.done, len(places)) if index not in settled]
        for index in tried:
            self._counts.add("retry")
            self._reports.ended(
                "retry", self._group, messages[index], outcomes[index], lane.elapsed_ms, error=errors[index]
            )
        now_ms = self._clock.monotonic_ms()
        self._say_blocked(lane, messages[ends.done], ends.stay.reason)
        line.stay(now_ms, ends.stay.pause_ms, ends.stay.reason, tried=[places[index] for index in tried])
        lane.desk.pull.left(places[0][0].chunk, 0)

    def _settled(self, lane: Lane, portion: Portion, index: int, result: object, event: str, now_ms: int) -> None:
        line, pull = lane.line, lane.desk.pull
        pull.rates.handled(now_ms, 1, 0.0)
        self._counts.add(event)
        if event != "handled":  # plain success was told by the observer around the call
            message = line.as_tried(portion, index)
            self._reports.ended(event, self._group, message, lane.outcome, lane.elapsed_ms, error=lane.error)
        if line.is_manual and event == "dropped":
            line.end_one(portion, index)  # for good: no rollback brings it back
        else:
            self._advance(lane, portion, 1)
        if line.is_manual and isinstance(result, Commit):
            for each in line.commit(portion):
                pull.left(each.chunk, 0)
        else:
            pull.left(portion.chunk, 0)

    def _roll_back(self, lane: Lane, portion: Portion, message: Message, result: Rollback, now_ms: int) -> None:
        line, pull = lane.line, lane.desk.pull
        self._counts.add("retry")
        pull.rates.failed(now_ms)
        self._reports.ended("retry", self._group, message, lane.outcome, lane.elapsed_ms)
        if line.first is portion:  # else the queue is being given back: its next owner begins at what is committed
            line.roll_back(portion)
            line.stay(now_ms, pause_ms(result.pause), f"rolled back: {result.reason}", counts=False)
            pull.left(portion.chunk, 0)

    def _stay(self, lane: Lane, portion: Portion, now_ms: int, wait_ms: int, reason: str, *, counts: bool) -> None:
        line = lane.line
        if line.first is not portion:
            return  # the queue is being given back: its next owner is given the message
        self._say_blocked(lane, line.message, reason)
        line.stay(now_ms, wait_ms, reason, counts=counts)
        lane.desk.pull.left(portion.chunk, 0)  # its attempt took time, which counts before the next one

    def _say_blocked(self, lane: Lane, message: Message, reason: str) -> None:
        if not lane.line.last_error:
            named = {"key": lane.line.key} if lane.desk.lanes.is_by_key else {}
            self._reports.blocked(self._group, message, str(lane.desk.pull.queue), reason, named)

    async def bury(self, lane: Lane) -> None:
        """Have a broker keep the first message that was given up; only then has it ended here."""
        line, pull = lane.line, lane.desk.pull
        portion, index, copy = line.copies[0]
        message = line.as_tried(portion, index)
        try:
            if marks.rarely("a dead letter fails"):
                raise BrokerUnreachable("a dead letter that failed")
            why = self._reports.death_reason(copy.reason, copy.error, copy.line)
            await self._brokers.dead_letter(message, self._group, why)
            await marks.stretched("a dead letter is durable")
        except FrameworkError as error:
            if line.copies and line.copies[0][0] is portion:
                log.warning(
                    "dead letter not sent",
                    group=self._group, queue=str(pull.queue), offset=message.queue_offset, reason=str(error),
                )  # fmt: skip
                wait_ms = lane.backoff.failed(self._chance.random())
                line.stay(self._clock.monotonic_ms(), wait_ms, f"cannot send back: {error}", counts=False)
                lane.is_unsent = True
            return
        lane.is_unsent = False
        if portion.window.is_closed or not lane.desk.lease.holds(self._clock.monotonic_ms()):
            self._side.left(pull, 1, is_late=True)
            return
        self._counts.add(copy.event)
        if line.copies and line.copies[0][:2] == (portion, index):
            line.copies.popleft()
        if line.is_reported:
            log.info("queue no longer stuck", group=self._group, queue=str(pull.queue))
        lane.backoff.succeeded()
        line.end_one(portion, index)
        if line.after_copies and not line.copies:
            handled, line.after_copies = line.after_copies, []
            line.advance_over(handled)
            for chunk, ended in Counter(each.chunk for each, _ in handled).items():
                pull.left(chunk, ended)
        self._reports.ended(
            copy.event, self._group, message, lane.outcome, lane.elapsed_ms, reason=copy.reason, error=copy.error
        )
        pull.left(portion.chunk, 0)
