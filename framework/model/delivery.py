"""Delivery: one attempt at one message, for handlers and plugins that ask for more than the message."""

from __future__ import annotations

from typing import ClassVar, Protocol

from framework.model.message import Message
from framework.model.outcome import Outcome


class Running(Protocol):
    """The handler's run that a delivery belongs to, where a limit of time watches over it."""

    @property
    def verdict(self) -> Outcome | None:
        """What was decided because the limit was over; None before."""
        ...

    def extend(self, by: str | float) -> bool: ...


class Delivery:
    """One attempt at one message: one start of a handler. Do not change it.

    It is built only if a handler or a hook needs it, or the result is not plain success.
    """

    __slots__ = ("_running", "epoch", "group", "message", "started")

    is_of_batch: ClassVar[bool] = False
    """Whether its handler takes several messages at once: one start of it is a delivery of each."""

    def __init__(
        self, group: str, message: Message, started: float, running: Running | None = None, epoch: int | None = None
    ) -> None:
        self.group, self.message = group, message
        self.started = started
        """Seconds on the monotonic clock."""
        self._running = running
        self.epoch = epoch
        """The number of this acquisition of `message.queue` (a fencing token). Each later owner has a higher one, so a
        store can refuse what a previous owner still writes. None if the group names no store (`progress`), and while
        its store cannot be written.
        """

    @property
    def running(self) -> Running | None:
        """For internal use; None if the group has no `timeout`."""
        return self._running

    @property
    def attempt(self) -> int:
        """The message's attempt: 1 on first delivery."""
        return self.message.attempt

    @property
    def is_expired(self) -> bool:
        """Whether the handler took longer than `timeout`. Then the message was settled without it and may already run
        elsewhere: what this handler still does happens in addition, and its result changes nothing.
        """
        running = self.running
        return running is not None and running.verdict is not None

    def extend(self, by: str | float) -> bool:
        """Ask for more time: from now on the handler may run for `by` ("5m", or seconds), whatever `timeout` says.

        It never shortens what is left. False: too late, the handler should stop. Call it from any thread.
        """
        running = self.running
        return running is None or running.extend(by)

    def __repr__(self) -> str:
        return f"<Delivery {self.group} {self.message}>"


class BatchDelivery(Delivery):
    """One of those that a handler of batches is started with."""

    __slots__ = ()

    is_of_batch = True
