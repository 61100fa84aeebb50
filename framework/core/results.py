"""What a handler's end comes to: its outcome, the kind of end, and the error that is to be shown, if there is one.

A handler's answer goes through here before anything is decided: what `explicit_ack` asks for, and what a declared Retry
says about failures. It knows no clock: age and attempt are told.
"""

from __future__ import annotations

from framework.core.retry import outcome_of
from framework.errors import BodyUnavailable, RecordDamaged
from framework.model.answers import understood
from framework.model.death_reason import line_of
from framework.model.outcome import (
    OUTCOMES,
    Ack,
    BatchFailed,
    DeadLetter,
    Drop,
    Kind,
    Outcome,
    RetryLater,
    Rollback,
    Suspend,
)
from framework.model.retrying import Retry

HOLDS = (BodyUnavailable, RecordDamaged, MemoryError)
"""Raised where we lack the means to open a message: no attempt, nothing of the message's, and its queue is held."""


class Result:
    """A judged end. `error` is told once: of a batch that failed, its first message has it."""

    __slots__ = ("_line", "error", "error_type", "kind", "outcome")

    def __init__(
        self, outcome: Outcome, kind: Kind, error: Exception | None = None, error_type: str = "", line: str = ""
    ) -> None:
        self.outcome, self.kind, self.error, self._line = outcome, kind, error, line
        self.error_type = error_type or ("" if error is None else type(error).__name__)

    def without_error(self) -> Result:
        return Result(self.outcome, self.kind, error_type=self.error_type, line=self.line)

    @property
    def line(self) -> str:
        """Where the error was raised, in the author's code; empty where none was. Looked up when it is asked for."""
        return self._line or line_of(self.error)

    def __repr__(self) -> str:
        return f"<Result {self.kind} {self.outcome}>"


def failure_of(error: BaseException) -> Exception:
    """What a handler raised, as the failure that it is: a panic of a library in Rust, say, is none of Exception's."""
    if isinstance(error, Exception):
        return error
    failure = RuntimeError(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)
    return failure.with_traceback(error.__traceback__)


def result_of(value: object) -> Result:
    """Judge what a handler returned or raised, where nothing was declared about it."""
    if isinstance(value, Result):
        return value
    value = understood(value)
    outcome = outcome_of(value)
    if isinstance(value, Exception):
        return Result(outcome, "exception", value)
    return Result(outcome, "failed" if isinstance(outcome, RetryLater | DeadLetter | Suspend) else "success")


def kind_of(result: Result, elapsed_ms: float, stuck_after_ms: float) -> Kind:
    """The kind as it is told of an orderly handler, which nothing limits: one that took long enough to be stuck is
    named for that, as in Java's statistics.
    """
    return "timed_out" if elapsed_ms >= stuck_after_ms else result.kind


FAILURES: tuple[Kind, ...] = ("exception", "timed_out")
"""Ends that show that a handler does not work; an answer, whatever it says, shows that it does."""


def has_failed(value: object) -> bool:
    """Whether a handler ended so: what it raised, or what was made of that."""
    return isinstance(value, Exception) or (type(value) is Result and value.kind in FAILURES)


def explicit(value: object) -> object:
    """Under `explicit_ack` only `Ack()` is success: it becomes None, and None becomes another try."""
    value = understood(value)
    if isinstance(value, Ack):
        return None
    if isinstance(value, (*OUTCOMES, Result, Exception)):
        return value
    said = "nothing" if value is None else f"a {type(value).__name__}"
    return Result(RetryLater(reason=f"returned {said}, and explicit_ack asks for an outcome"), "nothing")


def by_policy(retry: Retry, value: object, attempt: int, age_ms: int) -> object:
    """What a declared Retry makes of a failure; anything else stays what it is."""
    if isinstance(value, Rollback):
        return value
    result = result_of(value)
    if result.kind == "success" or not isinstance(result.outcome, RetryLater):
        return value
    error, wish = result.error, result.outcome
    cause = error.__cause__ if isinstance(error, BatchFailed) else error
    if cause is not None and (isinstance(cause, retry.give_up_on) or not isinstance(cause, retry.on)):
        return Result(_given_up(retry, wish.reason), result.kind, error)
    is_over = retry.max is not None and attempt > retry.max
    if is_over or (retry.within_ms is not None and age_ms > retry.within_ms):
        after = f"after {attempt} deliveries" if is_over else f"{age_ms / 1000:.0f} s after it was sent"
        return Result(_given_up(retry, f"{wish.reason or 'retry later'}, given up {after}"), result.kind, error)
    delay = wish.delay
    if delay is None and retry.delays:
        delay = retry.delays[min(attempt, len(retry.delays)) - 1]
    return Result(RetryLater(delay, wish.reason), result.kind, error)


def _given_up(retry: Retry, reason: str) -> Outcome:
    return DeadLetter(reason) if retry.then is DeadLetter else Drop("retry", reason)
