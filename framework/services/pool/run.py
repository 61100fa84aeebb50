"""Types that a group's services share: what a chunk is run with, what became of messages, and how to count them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NamedTuple

from framework.core.expiry import Slot
from framework.model.message import Message
from framework.model.outcome import Kind
from framework.model.queue import MessageQueue

BREATH_S = 0.002
SyncCall = Callable[[Message], object]


@dataclass(slots=True, eq=False)
class MessageCounts:
    """What became of messages, for the last line of `run` and for pictures. Added to a chunk at a time.

    A group's snapshot has each of them under the same name.
    """

    handled: int = 0
    retried: int = 0
    dead_lettered: int = 0
    dropped: int = 0
    late: int = 0
    """Ended after their queue was gone, or after they had expired: the result changed nothing."""
    damaged: int = 0
    """Records left behind because they stayed damaged, by `damaged: skip`."""
    abandoned: int = 0
    """Still running when the drain limit was over."""
    unconfirmed: int = 0
    """Ended, and coming again: at the stop nobody confirmed an offset above them."""
    failed: int = 0
    """Not plain success by the handler's answer; below by an exception, by no answer under `explicit_ack`, and by a
    limit that was over.
    """
    raised: int = 0
    nothing: int = 0
    timed_out: int = 0

    def add(self, event: str) -> None:
        """Count a message by the name of its event."""
        name = "retried" if event == "retry" else event
        assert hasattr(self, name), f"no such event: {event!r}"
        setattr(self, name, getattr(self, name) + 1)

    def add_kind(self, kind: Kind) -> None:
        """Count how a handler ended that was not plain success."""
        name = "raised" if kind == "exception" else kind
        if name != "success":
            setattr(self, name, getattr(self, name) + 1)


class AtWork(NamedTuple):
    """One running handler, for pictures. Its messages may have ended by the time that somebody looks at them."""

    queue: MessageQueue
    messages: Sequence[Message]
    started: float
    """Seconds on the monotonic clock."""
    worker: Any
    """The task, or the number of the thread, that runs it; None where it has only just begun."""
    is_given_up: bool = False
    """Its time was over, and its messages were settled without it."""


def at_work(slots: Iterable[Slot], *, given_up: bool = False) -> Iterator[AtWork]:
    """What the handlers in these slots are at. Threads may move on meanwhile, so that each is looked at once."""
    for slot in slots:
        started, members = slot.started, slot.running
        messages = [
            chunk.messages[index]
            for chunk, index in members
            if index < len(chunk.messages) and (given_up or not chunk.has_ended(index))
        ]
        if messages:
            yield AtWork(members[0][0].run.queue, messages, started, slot.worker, given_up)


class Breath:
    """A pool's: lets the loop go on though handlers never suspend. Its workers together keep it for BREATH_S, and each
    for a chunk or a batch beside.
    """

    __slots__ = ("_monotonic", "_turn", "at", "turning")

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self.at = 0.0
        """When the loop last had a turn (seconds, monotonic)."""
        self.turning = 0
        """Workers that let it have one: they take what is ready without being woken."""
        self._turn = 0

    async def draw(self) -> None:
        """Let the loop have a turn."""
        turn = self._turn
        self.turning += 1
        try:
            await asyncio.sleep(0)
        finally:
            self.turning -= 1
            if turn == self._turn:  # else another worker came back before, in the same turn
                self._turn += 1
                self.at = self._monotonic()


RUNNING: ContextVar[Slot | None] = ContextVar("framework_running_slot", default=None)
"""The slot of the worker that runs the current code. Set once per worker, not once per message.

Log lines and deliveries find their message by it. A task that a worker starts, and that outlives the message, sets it
to None first.
"""


def is_given_up() -> bool:
    """Whether the time of the worker that runs this is over: what it comes to changes nothing."""
    slot = RUNNING.get()
    return slot is not None and slot.verdicts is not None
