"""Portion: those messages of a chunk that one line of an orderly queue handles, in the order of their offsets.

The whole chunk where the order of the queue is kept, the messages of one key where that of keys is. What ends is told
to the chunk, which alone knows how far the offset may go. It knows no clock.
"""

from __future__ import annotations

from collections.abc import Sequence

from framework.core.chunk import Chunk
from framework.core.window import Window
from framework.model.message import Message


class Portion:
    """Messages with a cursor. Its line is its only writer."""

    __slots__ = ("_places", "chunk", "count", "ended", "gone", "messages", "next", "window")

    def __init__(self, chunk: Chunk, messages: Sequence[Message], places: Sequence[int] | None = None) -> None:
        self.chunk, self.messages, self.count = chunk, messages, len(messages)
        self.window: Window = chunk.window
        self._places = places
        """Where its messages stand in the chunk; None where it is the whole chunk."""
        self.next = 0
        """Index of the first message that has not been handled."""
        self.ended = 0
        """All below have ended for the chunk; less than `next` while a commit is waited for."""
        self.gone = 0
        """Bit i: message i has ended out of its turn, and is passed over."""

    def end(self, until: int) -> None:
        """Let the messages below `until` end."""
        chunk, begin = self.chunk, self.ended
        self.ended = until
        if self._places is None and chunk.low == begin and not chunk.ahead:
            chunk.low = until  # the common way: one store, however many there were
            return
        for index in range(begin, until):
            if not self.gone >> index & 1:
                chunk.finish(index if self._places is None else self._places[index])

    def end_one(self, index: int) -> None:
        """Let one message end, whatever is before it."""
        if not self.gone >> index & 1:
            self.gone |= 1 << index
            self.chunk.finish(index if self._places is None else self._places[index])

    def skip_gone(self) -> None:
        """Move the cursor past what has ended out of its turn; where nothing before it waits for a commit, for good."""
        while self.gone >> self.next & 1:
            if self.ended == self.next:
                self.ended += 1
            self.next += 1

    def __repr__(self) -> str:
        return f"<Portion of {self.chunk}: next={self.next} of {self.count}>"
