"""What hooks for deliveries may answer, and what the contexts of `around_consume` are left with."""

from __future__ import annotations

from dataclasses import dataclass

from framework.errors import shorten
from framework.model.durations import to_ms
from framework.model.outcome import DeadLetter, Outcome, RetryLater, Rollback, Suspend

NOT_DONE = (RetryLater, DeadLetter, Suspend, Rollback)
"""Answers after which the handler's work is not done."""


@dataclass(frozen=True, slots=True)
class Skip:
    """Do not handle this message: it is settled as `Drop` under the plugin's name, counted and logged."""

    reason: str


@dataclass(frozen=True, slots=True)
class NothingFor:
    """What `around_consume` may answer instead of None: nothing is put around this message's handler, nor around those
    of the next ones of its pull, `messages` in all, whichever these are. The hook is not called for them.
    """

    messages: int

    def __post_init__(self) -> None:
        if type(self.messages) is not int or self.messages < 1:
            raise ValueError(f"NothingFor({shorten(self.messages)}): say for how many messages, this one among them")


class TryAgain(Exception):
    """Raised by a context of `around_consume`, entering or leaving: what the handler did has no effect, such as by a
    transaction that could not be committed, and the message is delivered again. Its only way to say so: whatever else
    it raises is contained.
    """

    def __init__(self, reason: str = "", delay: str | float | None = None) -> None:
        super().__init__(reason)
        self.reason, self.delay = reason, delay
        if delay is not None:
            to_ms(delay)  # so that a bad delay is an error of who wrote it


class NotDone(Exception):
    """What a context of `around_consume` is left with where the handler answered, and not that it is done."""

    def __init__(self, outcome: Outcome | Rollback) -> None:
        super().__init__(str(outcome))
        self.outcome = outcome
