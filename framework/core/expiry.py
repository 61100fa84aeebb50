"""Slot: what one worker runs now, and when it is over its limit. Looked at from outside; told the time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from framework.core.chunk import Chunk
from framework.core.window import Window
from framework.model.delivery import Delivery
from framework.model.durations import to_ms
from framework.model.message import Message
from framework.model.outcome import Outcome

Member: TypeAlias = tuple[Chunk, int]
"""One message: the chunk that it came in, and its index there."""

Span: TypeAlias = tuple[Chunk, int, int]
"""Messages of one chunk: the first index, and the one behind the last."""


class Slot:
    """One running handler: a message is (chunk, index). A plain slotted class: it is on every message's way."""

    __slots__ = ("chunk", "ended", "extended", "index", "is_leaving", "started", "stuck", "until", "verdicts", "worker")

    def __init__(self) -> None:
        self.chunk: Chunk | None = None
        self.index = 0
        self.started = 0.0
        """Seconds on the monotonic clock. Where a thread writes, this comes first: whoever looks in between then takes
        the message for a young one, and never a young one for its forerunner."""
        self.until = 0
        """Where its worker's part of the chunk ends. Lowered from outside, it takes the worker out of the chunk after
        the message that runs."""
        self.is_leaving = False
        """Its thread is to come home after the message that runs, and to start nothing more."""
        self.worker: Any = None
        """The task, or the number of the thread, that is in it."""
        self.ended: Sequence[int] = ()
        """What its thread has ended and not brought home yet."""
        self.extended: tuple[Member, float] | None = None
        """For which message its handler asked for more time, and until when."""
        self.stuck: Member | None = None
        """The message whose run was last told of as taking too long, where somebody is told."""
        self.verdicts: dict[Member, Outcome] | None = None
        """What was decided of messages whose handler took too long. Set once, it fences the slot: its worker is given
        no more messages, and what it says of these changes nothing."""

    @property
    def running(self) -> Sequence[Member]:
        """The messages that its handler is at."""
        return () if self.chunk is None or self.index < 0 else ((self.chunk, self.index),)

    def epoch(self, at: int = 0) -> int | None:
        """Of the acquisition that the message came by: the one that runs, or number `at` of those that do."""
        chunk = self.chunk
        return None if chunk is None else self._epoch_of(chunk)

    def _epoch_of(self, chunk: Chunk) -> int | None:
        window: Window | None = chunk.window
        return None if window is None else window.epoch

    def has_expired(self, member: Member) -> bool:
        verdicts = self.verdicts
        return verdicts is not None and member in verdicts

    def __repr__(self) -> str:
        return f"<Slot {self.chunk} index={self.index}>" if self.chunk else "<Slot idle>"


class BatchSlot(Slot):
    """A handler that is at several messages at once. One limit for all of them, and one slot a run."""

    __slots__ = ("size", "spans")

    def __init__(self, spans: Sequence[Span], started: float) -> None:
        super().__init__()
        self.chunk, self.index, _ = spans[0]
        self.started = started
        self.spans = spans
        self.size = sum([until - begin for _, begin, until in spans])

    @property
    def running(self) -> Sequence[Member]:
        return [(chunk, index) for chunk, begin, until in self.spans for index in range(begin, until)]

    def epoch(self, at: int = 0) -> int | None:
        for chunk, begin, until in self.spans:
            if at < until - begin:
                return self._epoch_of(chunk)
            at -= until - begin
        raise IndexError(at)


class LineSlot(Slot):
    """A worker that goes along a line of an orderly queue, where nothing expires: it tells epoch and group."""

    __slots__ = ("batch", "group", "message", "window")

    def __init__(self, window: Window, group: str) -> None:
        super().__init__()
        self.window, self.group = window, group
        self.message: Message | None = None
        """The one that it is at, for lines of the log; of several, `batch` is how many."""
        self.batch = 0

    def epoch(self, at: int = 0) -> int | None:
        return self.window.epoch


def due(slot: Slot, limit: float | None) -> float | None:
    """When the handler that runs is over its limit, in seconds; None where nothing runs, or nothing limits it."""
    chunk = slot.chunk
    if chunk is None or limit is None:
        return None
    member, extended = (chunk, slot.index), slot.extended
    begun = slot.started  # read last: see there
    if member[1] < 0 or slot.has_expired(member) or chunk.has_ended(member[1]):
        return None
    over = begun + limit
    return max(over, extended[1]) if extended is not None and extended[0] == member else over


class RunningHandler:
    """One running handler as its `Delivery` sees it: has it expired, and may it have more time?"""

    __slots__ = ("_member", "_now", "_slot")

    def __init__(self, slot: Slot, member: Member, now: Callable[[], float]) -> None:
        self._slot, self._member, self._now = slot, member, now

    @property
    def verdict(self) -> Outcome | None:
        verdicts = self._slot.verdicts
        return None if verdicts is None else verdicts.get(self._member)

    def extend(self, by: str | float) -> bool:
        until = self._now() + to_ms(by) / 1000
        extended = self._slot.extended
        if extended is not None and extended[0] == self._member:
            until = max(until, extended[1])
        self._slot.extended = self._member, until
        return self.verdict is None


class SlotDelivery(Delivery):
    """The delivery of the message that a pool's slot is at now. What watches over it is made when somebody asks."""

    __slots__ = ("_chunk", "_index", "_now", "_slot")

    def __init__(self, group: str, message: Message, slot: Slot, chunk: Chunk, now: Callable[[], float]) -> None:
        # All of it here and nothing by `super`: this is on each message's way where hooks are.
        self.group, self.message, self.started = group, message, slot.started
        self._slot, self._chunk, self._index, self._now = slot, chunk, slot.index, now
        window: Window | None = chunk.window
        self.epoch = None if window is None else window.epoch

    @property
    def running(self) -> RunningHandler:
        return RunningHandler(self._slot, (self._chunk, self._index), self._now)


def held(slot: Slot | None, now: Callable[[], float]) -> RunningHandler | None:
    """What a delivery that begins in this slot knows of it."""
    if slot is None or slot.chunk is None:
        return None
    return RunningHandler(slot, (slot.chunk, slot.index), now)
