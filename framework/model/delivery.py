"""Delivery: one attempt at one message, for handlers and plugins that ask for more than the message."""

from __future__ import annotations

from dataclasses import dataclass

from framework.model.message import Message


@dataclass(frozen=True, slots=True)
class Delivery:
    """One handler start. Built only where a handler or a hook asks for it, or where the result is not plain success."""

    group: str
    message: Message
    started: float
    """Seconds on the monotonic clock."""

    @property
    def attempt(self) -> int:
        return self.message.attempt
