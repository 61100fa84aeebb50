"""Outcomes: what a handler may answer, and what became of a delivery.

Returning nothing is success; raising is "again, later". The rest are these values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from framework.model.durations import to_ms


@dataclass(frozen=True, slots=True)
class Ack:
    """Handled. The same as returning nothing, except under `explicit_ack`."""


@dataclass(frozen=True, slots=True)
class RetryLater:
    """Deliver again after a delay.

    RocketMQ knows fixed delays: the shortest one that is not shorter is taken, so 90s waits 2 minutes, never less.
    Beyond its last one, two hours, the message comes after two hours, and the log says so once. Without a delay the
    next step of the ladder is taken.
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
    """Put the message on the group's dead-letter topic now, whatever attempts are left."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Suspend:
    """Orderly groups: stop the queue at this message and try it again after a pause."""

    pause: str | float = 1.0

    def __post_init__(self) -> None:
        to_ms(self.pause)


@dataclass(frozen=True, slots=True)
class Drop:
    """Settled without being handled, on purpose: counted and logged under the name of who decided."""

    by: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Commit:
    """Orderly consumers with `commit="manual"`: this message and all before it are handled; the offset may move.

    The same as returning nothing where commits are not made by hand.
    """


@dataclass(frozen=True, slots=True)
class Rollback:
    """Orderly consumers with `commit="manual"`: after a pause, deliver all since the last `Commit` again, in order.

    No attempt is used. Where commits are not made by hand this is a failure of the message like any other.
    """

    pause: str | float = 1.0
    reason: str = ""

    def __post_init__(self) -> None:
        to_ms(self.pause)


@dataclass(frozen=True, slots=True)
class Extend:
    """An expiry policy's answer: let the handler run on for so long. Without a length, for as long as the limit is."""

    by: str | float | None = None

    def __post_init__(self) -> None:
        if self.by is not None and not to_ms(self.by):
            raise ValueError("Extend by more than nothing")


Outcome: TypeAlias = Ack | RetryLater | DeadLetter | Suspend | Drop

Kind: TypeAlias = Literal["success", "failed", "exception", "nothing", "timed_out"]
"""How a handler ended: well, with an answer that says otherwise, by raising, without the answer that `explicit_ack`
asks for, or later than anybody should wait."""


class BatchFailed(Exception):
    """Raised by a batch handler: all is well before message `at`; it and the rest of the batch are tried again."""

    def __init__(self, reason: str = "", *, at: int) -> None:
        super().__init__(reason or f"failed at message {at} of the batch")
        self.at = at
