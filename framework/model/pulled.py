"""What a pull can answer, and what became of one. Always a value: a queue's flow alone decides what each one means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from framework.model.message import Message
from framework.model.queue import MessageQueue


class Found:
    """Messages in the order of their offsets. Not a dataclass: one is made a pull, on the hot path."""

    __slots__ = ("max_offset", "messages", "min_offset", "next_offset", "size")

    def __init__(self, messages: list[Message], size: int, next_offset: int, min_offset: int, max_offset: int) -> None:
        self.messages = messages
        """May be empty: everything was filtered out on our side. `next_offset` still moves."""
        self.size = size
        """Bytes of the pulled body that the messages keep alive."""
        self.next_offset = next_offset
        self.min_offset = min_offset
        self.max_offset = max_offset


@dataclass(frozen=True, slots=True)
class Popped:
    """Messages that a pop brought, in no order of offsets, and how many more wait at the broker."""

    messages: list[Message]
    size: int
    rest: int


@dataclass(frozen=True, slots=True)
class NothingNew:
    """Nothing (left) at this offset; go on from `next_offset`, at once or by a new long poll."""

    next_offset: int
    min_offset: int
    max_offset: int


@dataclass(frozen=True, slots=True)
class OffsetIllegal:
    """The broker has no such offset (retention, a reset, a lost log); it names the one to go on from."""

    next_offset: int
    min_offset: int
    max_offset: int


@dataclass(frozen=True, slots=True)
class Failed:
    """The pull failed; stand back and try again. `code` is the response code where the broker answered, else None."""

    reason: str
    code: int | None = None
    is_away: bool = False
    """There is no connection, which was said once for all who need it."""


@dataclass(frozen=True, slots=True)
class Damaged:
    """The answer holds a record that contradicts itself, and nothing of it is handed out: pull again.

    `following` is where the answer goes on. `until` is how far one would have to go to leave the record behind, where
    it was asked for alone.
    """

    reason: str
    following: int
    until: int
    max_offset: int


BUSY = 215
"""The code of a broker that holds its clients back: it is there, and has too much to do."""

PullResult: TypeAlias = Found | Popped | NothingNew | OffsetIllegal | Failed | Damaged


@dataclass(frozen=True, slots=True)
class ChunkSummary:
    """What was done of a chunk (one pull's result) since the last call. Made only where a plugin listens."""

    group: str
    queue: MessageQueue
    handled: int
    """Messages done by plain success; `after_consume` is called for the others."""
    elapsed_ms: float
    """How long workers were at it, all together."""
    bytes: int
    """Of the whole chunk, as it was pulled; 0 until its last message has ended."""
