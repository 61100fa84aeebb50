"""Chunk: one pull's answer, and which of its messages have ended.

A message is started by moving `next`, and ended by `finish`. In order, ending is one integer store that the worker
does itself (`low = index + 1`); out of order it is one bit. Everything that decides which offset may be committed is
here and in `window.py`. It knows neither who pulls nor who handles, and no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from framework.model.message import Message
from framework.model.queue import MessageQueue

if TYPE_CHECKING:
    from framework.core.window import Window


class Chunk:
    """Messages of one pull, in the order of their offsets, standing for the offsets [begin, end).

    `end` is the pull's next offset: messages that the broker filtered out belong to the range and never hold it.
    """

    __slots__ = ("ahead", "begin", "count", "end", "last", "low", "messages", "next", "run", "size", "spent", "window")

    def __init__(
        self, messages: Sequence[Message], begin: int, end: int, size: int, window: Window | None = None
    ) -> None:
        assert begin <= end
        self.messages = messages
        self.count = len(messages)
        self.begin, self.end = begin, end
        self.size = size
        """Pulled bytes that this chunk keeps alive."""
        self.next = 0
        """Index of the first message that nobody has started. Set to `count` when the queue is taken away."""
        self.low = 0
        """Index of the lowest message that has not ended."""
        self.ahead = 0
        """Bit i: message i has ended while a lower one has not."""
        self.last: tuple[int, int, int] | None = None
        """What tells the last message from another at its offset, once the messages themselves were let go."""
        self.window: Window = window  # type: ignore[assignment]  # None only in tests of a chunk alone
        self.spent = 0.0
        """Seconds that workers were in this chunk, as far as nobody has asked yet."""
        self.run: Run = None  # type: ignore[assignment]  # given by the window that admits it

    def finish(self, index: int) -> bool:
        """Note that message `index` has ended; False if it had before (a second result changes nothing)."""
        assert 0 <= index < self.count
        bit = 1 << index
        if index < self.low or self.ahead & bit:
            return False
        if index > self.low:
            self.ahead |= bit
            return True
        low = index + 1
        if self.ahead:
            while self.ahead >> low & 1:
                low += 1
            self.ahead = self.ahead >> low << low
        self.low = low
        return True

    def finish_span(self, begin: int, until: int) -> None:
        """Note that the messages [begin, until) have ended, those too that had ended before."""
        assert 0 <= begin <= until <= self.count
        low, ahead = self.low, self.ahead
        if begin <= low and not ahead:
            self.low = max(low, until)
            return
        ahead |= ((1 << until - begin) - 1) << begin
        if begin <= low:
            rest = ahead >> low
            low += (rest ^ (rest + 1)).bit_length() - 1  # past the ones that it ends with
        self.low, self.ahead = low, ahead >> low << low

    def has_ended(self, index: int) -> bool:
        return index < self.low or bool(self.ahead >> index & 1)

    def cut(self, at: int) -> Chunk:
        """Give the messages from `at` on, which nobody has started, to a chunk of their own."""
        assert self.low <= at < self.count
        assert not self.ahead >> at, "some of it has ended"
        begin = self.begin
        if at:
            # Popped messages have no offsets in a row: those of their chunks are counted.
            is_row = self.end - self.begin == self.count
            begin = self.begin + at if is_row else self.messages[at].queue_offset
        size = self.size * at // self.count
        rest = Chunk(self.messages[at:], begin, self.end, self.size - size, self.window)
        rest.run = self.run
        self.messages, self.count, self.end, self.size = self.messages[:at], at, begin, size
        return rest

    @property
    def is_finished(self) -> bool:
        return self.low >= self.count

    @property
    def low_offset(self) -> int:
        """The lowest offset of this range that has not ended; `end` when all have."""
        if self.low >= self.count:
            return self.end
        if self.end - self.begin == self.count:
            return self.begin + self.low  # none is missing; popped messages have no offsets in a row of their own
        return self.messages[self.low].queue_offset

    @property
    def running(self) -> int:
        """Messages started and not ended (an upper bound once the queue was taken away)."""
        return self.next - self.low - self.ahead.bit_count()

    def __repr__(self) -> str:
        return f"<Chunk [{self.begin}, {self.end}) next={self.next} low={self.low} of {self.count}>"


class Run(Protocol):
    """What a chunk's messages are run with (`chunk.run`): the owned queue, as the pool sees it."""

    @property
    def call(self) -> Callable[[Message], object]:
        """The handler with its hooks around it: a coroutine function for the pool, a plain one for threads."""
        ...

    @property
    def group_name(self) -> str: ...
    @property
    def queue(self) -> MessageQueue: ...
    def left(self, chunk: Chunk, ended: int) -> None:
        """A worker leaves the chunk after `ended` plain successes; the chunk may or may not be finished."""
        ...

    def not_success(self, chunk: Chunk, index: int, result: object, started: float) -> None:
        """Message `index` ended with something that is not plain success."""
        ...

    def late(self, chunk: Chunk, count: int) -> None:
        """Handlers of so many messages ended after these had expired: nothing changes, but it is counted."""
        ...
