"""Delivery: one attempt at one message, for handlers and plugins that ask for more than the message."""

from __future__ import annotations

from typing import Protocol

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
    """One handler start. Built only where a handler or a hook asks for it, or where the result is not plain success.

    A plain slotted class, since where hooks listen each message has one. Do not change it.
    """

    __slots__ = ("_running", "epoch", "group", "message", "started")

    def __init__(
        self, group: str, message: Message, started: float, running: Running | None = None, epoch: int | None = None
    ) -> None:
        self.group, self.message = group, message
        self.started = started
        """Seconds on the monotonic clock."""
        self._running = running
        self.epoch = epoch
        """Which acquisition of `message.queue` this belongs to: whoever takes the queue next has a higher one, so that
        a store can refuse what a former owner still writes. None where the group names no store (`progress`), and while
        its store could not be written.
        """

    @property
    def running(self) -> Running | None:
        """For the framework's own use; None where no limit watches."""
        return self._running

    @property
    def attempt(self) -> int:
        """The message's: 1 on first delivery."""
        return self.message.attempt

    @property
    def is_expired(self) -> bool:
        """The handler took longer than `timeout` allows: the message was settled without it, and may run elsewhere by
        now. Whatever this handler still does comes on top, and what it answers changes nothing.
        """
        running = self.running
        return running is not None and running.verdict is not None

    def extend(self, by: str | float) -> bool:
        """The heartbeat of long work: from now on it may take so long ("5m", or seconds), whatever the limit says.

        Never shortens what is left. False where it came too late; the handler had better stop then. From any thread.
        """
        running = self.running
        return running is None or running.extend(by)

    def __repr__(self) -> str:
        return f"<Delivery {self.group} {self.message}>"
