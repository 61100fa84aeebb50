"""Direct consumption: an administrator hands one message to our handler and gets its result.

The handler runs once, with its hooks around it. Nothing is settled, counted, sent back or committed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from framework.core.results import result_of
from framework.errors import ProtocolError, shorten
from framework.model.message import Message
from framework.model.outcome import Ack, Commit, DeadLetter, Drop, RetryLater, Rollback, Suspend
from framework.model.queue import MessageQueue
from framework.net.task_tree import in_time
from framework.ports import Clock, Workers
from framework.services.call.run_once import run_once
from framework.services.pool.run import RUNNING
from framework.wire import stored
from framework.wire.bodies import running
from framework.wire.bodies.running import DirectResult

# The broker waits 10 s for us, its own time-out for such calls; administrators should see our remark, not that.
PATIENCE_MS = 9_500
REMARK_MAX = 500


def message_in(body: bytes, broker: str) -> Message:
    """The one stored message that was handed to us; ProtocolError where it is none, or several."""
    records = stored.decode_records(body)
    if len(records) != 1:
        raise ProtocolError(f"{len(records)} records came; exactly one can be consumed directly")
    place = MessageQueue(records[0].topic, broker, records[0].queue_id)
    messages = stored.decode(body, place)
    if len(messages) != 1:
        raise ProtocolError(f"the record holds a batch of {len(messages)}; brokers hand out single messages here")
    return messages[0]


async def consume_directly(
    call: Callable[[Message], Any],
    message: Message,
    *,
    is_async: bool,
    is_orderly: bool,
    commits_by_hand: bool = False,
    judged: Callable[[Message, object], object] = lambda _, result: result,
    workers: Workers,
    clock: Clock,
) -> DirectResult:
    """Run the handler once. A thread that takes too long is left running; its result is ignored."""
    RUNNING.set(None)  # whatever opened the connection that asks, it is no worker's message
    started = clock.monotonic()
    try:
        result = await in_time(PATIENCE_MS / 1000, run_once(call, message, is_async=is_async, workers=workers))
        word, remark = _named(judged(message, result))
    except TimeoutError:
        word, remark = running.THREW, f"no result within {PATIENCE_MS} ms; the handler was given up"
    spent_ms = int((clock.monotonic() - started) * 1000)
    return DirectResult(
        result=word, order=is_orderly, auto_commit=not commits_by_hand, remark=remark or None, spent_ms=spent_ms
    )


def _named(result: object) -> tuple[str, str]:
    """RocketMQ's word for a result, and what else there is to say."""
    end = result_of(result)
    if end.error is not None:
        return running.THREW, shorten(end.error, REMARK_MAX)
    if isinstance(result, Commit):
        return running.COMMIT, ""
    if isinstance(result, Rollback):
        return running.ROLLBACK, result.reason[:REMARK_MAX]
    match end.outcome:
        case Ack():
            return running.SUCCESS, ""
        case Drop(by=by, reason=reason):
            return running.SUCCESS, f"dropped by {by}: {reason}"[:REMARK_MAX]
        case DeadLetter(reason=reason):
            return running.LATER, f"a dead letter: {reason}"[:REMARK_MAX]
        case RetryLater(delay=delay, reason=reason):
            wait = "" if delay is None else f"in {delay}"
            return running.LATER, ": ".join(part for part in (wait, reason) if part)[:REMARK_MAX]
        case Suspend(pause=pause):
            return running.LATER, f"suspends its queue for {pause}"[:REMARK_MAX]
