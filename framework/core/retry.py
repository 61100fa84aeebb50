"""What becomes of a delivery that was not plain success: the outcome and the attempts decide, nothing else.

The copy that a retry leaves on the broker is durable before the source is settled; carrying that out is the shell's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from framework.core import limits
from framework.errors import BodyUndecodable, ConnectionLost, FrameworkError, RequestTimedOut
from framework.model import delay_levels
from framework.model.durations import to_ms
from framework.model.outcome import Ack, DeadLetter, Drop, Outcome, RetryLater, Rollback, Suspend


@dataclass(frozen=True, slots=True)
class Settle:
    """Ended; nothing to send."""

    event: str


@dataclass(frozen=True, slots=True)
class SendBack:
    """Have the broker keep a copy: on the retry topic after `level`, or among the dead letters."""

    level: int
    event: str
    reason: str
    error: str = ""
    """The class of what was raised."""
    line: str = ""
    """Where."""


@dataclass(frozen=True, slots=True)
class Stay:
    """Orderly queues: nothing behind this message starts until it was tried again, after a pause."""

    pause_ms: int
    reason: str


Decision: TypeAlias = Settle | SendBack


def outcome_of(result: object) -> Outcome:
    """Name what a handler returned or raised. A value that is no outcome is success: handlers may return anything."""
    match result:
        case Ack() | RetryLater() | DeadLetter() | Suspend() | Drop():
            return result
        case BodyUndecodable() as error:
            return DeadLetter(reason=str(error))  # no later try would read it better
        case Exception() as error:
            return RetryLater(reason=f"{type(error).__name__}: {error}")
        case Rollback(reason=reason):
            return RetryLater(reason=f"rolled back: {reason}" if reason else "rolled back")
        case _:
            return Ack()


def decide(outcome: Outcome, attempt: int, max_retries: int) -> Decision:
    """What the shell must do. `attempt` is 1 on first delivery, so `max_retries: 16` means 17 deliveries."""
    match outcome:
        case Ack():
            return Settle("handled")
        case Drop():
            return Settle("dropped")
        case DeadLetter(reason=reason):
            return SendBack(delay_levels.TO_DEAD_LETTERS, "dead_lettered", reason)
        case RetryLater(reason=reason) if attempt > max_retries:
            return SendBack(delay_levels.TO_DEAD_LETTERS, "dead_lettered", reason)
        case RetryLater(delay=delay, reason=reason):
            level = delay_levels.BY_ATTEMPT if delay is None else delay_levels.level_for(to_ms(delay))
            return SendBack(level, "retry", reason)
        case Suspend(pause=pause):
            # Only an orderly queue can stand still; here the same wish is a delayed retry, with a retry's attempts: the
            # broker counts them alike, and would make a dead letter of what is called a retry here.
            return decide(RetryLater(pause, reason="suspended"), attempt, max_retries)


def cut_short(outcome: Outcome) -> int | None:
    """The delay in ms that was asked for, where the brokers' ladder has none so long; None where it has."""
    match outcome:
        case RetryLater(delay=delay) | Suspend(pause=delay) if delay is not None:
            delay_ms = to_ms(delay)
            return delay_ms if delay_ms > delay_levels.DELAYS_MS[-1] else None
        case _:
            return None


def goes_round(error: FrameworkError, failures: int) -> bool:
    """Whether a copy that could not be had by a send-back is sent as a normal message now.

    If the answer was lost, the copy may be there. So the broker is asked once more first: the built-in one recognises
    what it was asked before, a stock one makes two copies either way. `failures` counts the rounds before this one.
    """
    return failures > 0 or not isinstance(error, (RequestTimedOut, ConnectionLost))


def decide_in_order(outcome: Outcome, attempt: int, max_retries: int) -> Settle | SendBack | Stay:
    """The same for an orderly queue, where a retry is a pause in place and no copy."""
    match outcome:
        case RetryLater() | Suspend() if attempt > max_retries:
            return SendBack(delay_levels.TO_DEAD_LETTERS, "dead_lettered", _reason_of(outcome))
        case RetryLater(delay=delay):
            return Stay(pause_ms(delay), _reason_of(outcome))
        case Suspend(pause=pause):
            return Stay(pause_ms(pause), _reason_of(outcome))
        case _:
            return decide(outcome, attempt, max_retries)


def decide_broadcasting(outcome: Outcome, attempt: int, max_retries: int) -> Settle | Stay:
    """The same for a broadcasting group, of which no broker keeps copies: a retry in place, and at last a drop."""
    decision = decide_in_order(outcome, attempt, max_retries)
    return Settle("dropped") if isinstance(decision, SendBack) else decision


def _reason_of(outcome: RetryLater | Suspend) -> str:
    return (outcome.reason if isinstance(outcome, RetryLater) else "") or "suspended"


def pause_ms(wish: str | float | None) -> int:
    """How long an orderly queue is left alone; within Java's bounds."""
    if wish is None:
        return limits.SUSPEND_MS
    return min(max(to_ms(wish), limits.SUSPEND_MIN_MS), limits.SUSPEND_MAX_MS)
