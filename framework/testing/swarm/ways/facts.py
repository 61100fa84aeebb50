"""Facts of ways: what only handlers with `once` or `@publishes` do, beside the facts of every run (`history.py`)."""

from __future__ import annotations

from dataclasses import dataclass

from framework.model.queue import MessageQueue
from framework.testing.swarm.history import Fact


@dataclass(frozen=True, slots=True)
class Repeated(Fact):
    """A message was not handled, since its group had handled it, or another one of its key, lately: it is done."""

    group: str
    message_id: str
    queue: MessageQueue
    offset: int


@dataclass(frozen=True, slots=True)
class Looked(Fact):
    """A store was asked for a key, and has it or has not; None where it gave no answer."""

    group: str
    key: str
    is_there: bool | None
    began: float
    """When it was asked."""


@dataclass(frozen=True, slots=True)
class Remembered(Fact):
    """A store has recorded a key for so long, and was asked at `began`; None as it is asked, 0 where it failed."""

    group: str
    key: str
    keep_s: float | None
    began: float


@dataclass(frozen=True, slots=True)
class Returned(Fact):
    """A handler returned something that is to be sent, which this token is in."""

    group: str
    queue: MessageQueue
    offset: int
    token: str


@dataclass(frozen=True, slots=True)
class Published(Fact):
    """A broker has acknowledged a message with this token in it."""

    token: str
