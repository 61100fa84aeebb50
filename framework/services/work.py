"""The words that a group's services share: what a chunk is run with, what became of messages, and how to count them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from framework.core.chunk import Chunk
from framework.model.message import Message

AsyncCall = Callable[[Message], Awaitable[object]]
SyncCall = Callable[[Message], object]


class Counts:
    """What became of messages, for the last line of `run` and for pictures. Added to a chunk at a time."""

    __slots__ = ("abandoned", "dead_lettered", "dropped", "handled", "late", "retried")

    def __init__(self) -> None:
        self.handled = 0
        self.retried = 0
        self.dead_lettered = 0
        self.dropped = 0
        self.late = 0
        """Ended after their queue was gone: the result changed nothing, and the message runs again elsewhere."""
        self.abandoned = 0
        """Still running when the drain limit was over."""

    def add(self, event: str) -> None:
        """Count one uncommon end by the name of its event."""
        match event:
            case "handled":
                self.handled += 1
            case "retry":
                self.retried += 1
            case "dead_lettered":
                self.dead_lettered += 1
            case "dropped":
                self.dropped += 1
            case _:
                raise AssertionError(f"no such event: {event!r}")

    def __repr__(self) -> str:
        values = " ".join(f"{name}={getattr(self, name)}" for name in self.__slots__)
        return f"<Counts {values}>"


class Run(Protocol):
    """What a chunk's messages are run with (`chunk.run`): the owned queue, as the crew sees it."""

    @property
    def call(self) -> Callable[[Message], object]:
        """The handler with its hooks around it: a coroutine function for the crew, a plain one for threads."""
        ...

    def left(self, chunk: Chunk, ended: int) -> None:
        """A worker leaves the chunk after `ended` plain successes; the chunk may or may not be finished."""
        ...

    def uncommon(self, chunk: Chunk, index: int, result: object, started: float) -> None:
        """Message `index` ended with something that is not plain success."""
        ...
