"""Outcomes: what a handler may answer, and what became of a delivery.

Returning nothing is success; raising is "again, later". The rest are these values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from framework.model.durations import to_ms


@dataclass(frozen=True, slots=True)
class Ack:
    """The message is done. The same as returning nothing, except with `explicit_ack`."""


@dataclass(frozen=True, slots=True)
class RetryLater:
    """Retry the message after a delay.

    RocketMQ has fixed delays; the next longer one is used, so 90s waits 2 minutes. The longest is 2 hours: a longer
    delay is cut to it, and logged once. Without a delay RocketMQ's next level is used. In orderly and broadcasting
    groups the pause is 10 ms to 30 s.
    """

    delay: str | float | None = None
    """A text such as "30s" or "2m", or seconds."""
    reason: str = ""

    def __post_init__(self) -> None:
        # Here, so that a bad delay is an error of the handler that wrote it, and of no loop.
        if self.delay is not None:
            to_ms(self.delay)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Send the message to the group's dead-letter queue now, even if retries are left."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Suspend:
    """Orderly groups: pause the queue at this message, then retry it. Other groups: the same as `RetryLater`."""

    pause: str | float = 1.0

    def __post_init__(self) -> None:
        to_ms(self.pause)


@dataclass(frozen=True, slots=True)
class Drop:
    """The message is done without being handled, on purpose. It is counted as dropped; `by` says who decided."""

    by: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Commit:
    """With `commit="manual"`: this message and all before it are done, and the offset may move.

    With automatic commits it is the same as returning nothing.
    """


@dataclass(frozen=True, slots=True)
class Rollback:
    """With `commit="manual"`: pause, then deliver everything since the last `Commit` again, in order.

    No attempt is used. With automatic commits it fails the message like an exception.
    """

    pause: str | float = 1.0
    reason: str = ""

    def __post_init__(self) -> None:
        to_ms(self.pause)


@dataclass(frozen=True, slots=True)
class Extend:
    """An expiry policy returns it to let the handler run on for `by`; without `by`, for another `timeout`."""

    by: str | float | None = None

    def __post_init__(self) -> None:
        if self.by is not None and not to_ms(self.by):
            raise ValueError("Extend by more than nothing")


OUTCOMES = (Ack, Commit, RetryLater, DeadLetter, Suspend, Drop, Rollback)
"""What a handler's answer may ask for."""

Outcome: TypeAlias = Ack | RetryLater | DeadLetter | Suspend | Drop

Kind: TypeAlias = Literal["success", "failed", "exception", "nothing", "timed_out"]
"""How a handler ended: well, with an answer that says otherwise, by raising, without the answer that `explicit_ack`
asks for, or later than anybody should wait."""


class BatchFailed(Exception):
    """A batch handler raises it: messages before index `at` are done, the message at `at` and the rest are retried."""

    def __init__(self, reason: str = "", *, at: int) -> None:
        super().__init__(reason or f"failed at message {at} of the batch")
        self.at = at
