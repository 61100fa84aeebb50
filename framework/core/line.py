"""Line: the messages of one owned queue in the order of their offsets, and what the first of them has gone through.

One message is at work at a time. What fails stays where it is and is tried again after a pause: nothing behind it
starts. Attempts are counted here, in memory, as the Java client does: a new owner counts anew. It knows no clock.
"""

from __future__ import annotations

from collections import deque

from framework.core.chunk import Chunk
from framework.core.retry import SendBack
from framework.model.message import Message
from framework.model.repeated import repeated


class Line:
    """The chunks that wait, in the order in which they were pulled. Its worker is its only writer."""

    __slots__ = (
        "_chunks", "_head", "_not_before_ms", "attempt", "copy", "is_reported", "last_error", "since_ms",
    )  # fmt: skip

    def __init__(self) -> None:
        self._chunks: deque[Chunk] = deque()
        self._head: Message | None = None
        """The first message as its next try will see it; None before its first failure."""
        self._not_before_ms = 0
        self.attempt = 0
        """Tries of the first message that have failed here."""
        self.since_ms: int | None = None
        """When the first message was first started; None before."""
        self.last_error = ""
        self.copy: SendBack | None = None
        """The first message is given up: what is left to do is to have a broker keep it, not to run it again."""
        self.is_reported = False
        """It was said that the first message has stood here for too long."""

    def offer(self, chunk: Chunk) -> None:
        self._chunks.append(chunk)

    def clear(self) -> None:
        """The queue is not ours any more, or not yet again."""
        self._chunks.clear()
        self._forget_head()

    @property
    def first(self) -> Chunk | None:
        """The chunk whose message at `next` is the first in line; None where nobody waits.

        Chunks of a window that hands out nothing more are used up, wherever they had got to.
        """
        chunks = self._chunks
        while chunks and chunks[0].next >= chunks[0].count:
            chunks.popleft()
            self._forget_head()
        return chunks[0] if chunks else None

    @property
    def message(self) -> Message:
        """The first message, with its attempts."""
        chunk = self.first
        assert chunk is not None, "nobody is in line"
        return self._head or chunk.messages[chunk.next]

    def wait_ms(self, now_ms: int) -> int:
        """How long the first message must still be left alone."""
        return max(0, self._not_before_ms - now_ms)

    def advance(self, count: int) -> None:
        """The first `count` messages of the first chunk have ended."""
        chunk = self.first
        assert chunk is not None
        assert not chunk.ahead, f"{chunk}: a message ended before its turn"
        assert chunk.next + count <= chunk.count
        chunk.next += count
        chunk.low = chunk.next
        self._forget_head()

    def stay(self, now_ms: int, pause_ms: int, reason: str, *, counts: bool = True) -> None:
        """The first message stays where it is and is tried again after the pause."""
        self._not_before_ms = now_ms + pause_ms
        self.last_error = reason
        if counts:
            chunk = self.first
            assert chunk is not None, "nobody is in line"
            # Of what was pulled, not of its last try: tries without end would else be a chain without end.
            pulled = chunk.messages[chunk.next]
            self.attempt += 1
            self._head = repeated(pulled, pulled.attempt + self.attempt)

    def is_stuck(self, now_ms: int, patience_ms: int) -> bool:
        """Whether the first message has stood here for so long."""
        return self.since_ms is not None and now_ms - self.since_ms >= patience_ms

    @property
    def blocked_because(self) -> str | None:
        """Why the first message is not past, for pictures; None while nothing has failed."""
        if not self.last_error:
            return "its handler has not ended for long" if self.is_reported else None
        return f"blocked after {self.attempt} attempts: {self.last_error}"

    def _forget_head(self) -> None:
        self._head = self.copy = self.since_ms = None
        self._not_before_ms = self.attempt = 0
        self.last_error = ""
        self.is_reported = False

    def __repr__(self) -> str:
        return f"<Line {self.first} attempt={self.attempt} {len(self._chunks)} chunks>"
