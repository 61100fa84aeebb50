"""Window: the chunks of one owned queue between pull and settlement.

Everything that moves the committable offset is in this file and in `chunk.py`. It knows neither who pulls nor who
handles, and no clock. The laws: the committable offset never passes a message that has not ended; it only goes forward;
an offset admitted once is not admitted again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from framework.core import limits
from framework.core.budget import Budget
from framework.core.chunk import Chunk, Run
from framework.model.message import Message

MARKS_MAX = 1_000  # each settles a chunk: what a window holds at most, many times over


class Window:
    """The deque of an owned queue's chunks. `admit` puts in, `settle` takes out what has ended from the front."""

    __slots__ = (
        "_budget", "_chunks", "_confirmed", "_marks", "_passed", "again", "bytes", "committable", "drains_to", "end",
        "epoch", "gathered", "is_closed", "is_draining", "is_kept", "is_popped", "messages", "run",
    )  # fmt: skip

    def __init__(self, begin: int, budget: Budget, run: Run | None = None) -> None:
        self._chunks: deque[Chunk] = deque()
        self._budget = budget
        self.committable = begin
        """The offset as of the last `settle`."""
        self.gathered = -1
        """What was committable when somebody last looked for news."""
        self.end = begin
        """The offset up to which pulls have been admitted."""
        self._passed = self._confirmed = 0
        self._marks: deque[tuple[int, int]] = deque()
        """Committable offsets that nobody has confirmed yet, rising, each with the messages that ended below it."""
        self.run = run
        self.again: dict[Chunk, Callable[[], None]] = {}
        """Messages that are started once more, each a chunk of its own; who is told when the queue is taken away."""
        self.messages = 0
        """Messages held: pulled, and not yet dropped with their finished chunk."""
        self.bytes = 0
        self.is_draining = False
        self.drains_to = 0
        """What is below may still be started while the queue drains: its line is behind others."""
        self.is_closed = False
        self.is_kept = False
        """What has ended above a gap survives this process: how far it runs ahead costs no repeats."""
        self.is_popped = False
        """Brokers keep which of its messages are done: none of them holds another up, and offsets are a mere count."""
        self.epoch: int | None = None
        """Of the acquisition that this window began with; None where nobody keeps epochs."""

    @classmethod
    def closed(cls) -> Window:
        """That of a queue without a position: nothing comes in, nothing counts, and what is committable is -1."""
        window = cls(-1, Budget(1))
        window.is_closed = True
        return window

    def admit(self, messages: Sequence[Message], begin: int, end: int, size: int) -> Chunk | None:
        """Take in a pull's answer, less what chunks admitted before cover already; None if nothing is left."""
        if self.is_closed or end <= self.end:
            return None
        if begin < self.end:
            messages = [message for message in messages if message.queue_offset >= self.end]
            begin = self.end
        chunk = Chunk(messages, begin, end, size if messages else 0, self)
        if self.run is not None:
            chunk.run = self.run
        if self.is_draining:
            chunk.next = chunk.count  # it came after the queue was taken away: nobody may start it
        self.end = end
        self._chunks.append(chunk)
        self.messages += chunk.count
        self.bytes += chunk.size
        self._budget.take(chunk.size)
        if not chunk.count:
            self.settle()
        return chunk

    def settle(self) -> int:
        """Drop the finished chunks and answer the committable offset: the next one to handle."""
        if self.is_closed:
            return self.committable  # the bytes were given back, and the queue is somebody else's
        chunks = self._chunks
        while chunks and chunks[0].low >= chunks[0].count:
            chunk = chunks.popleft()
            self.committable = chunk.end
            self._passed += chunk.low
            self._let_go(chunk)
        passed = self._passed
        if chunks:
            passed += chunks[0].low
            self.committable = max(self.committable, chunks[0].low_offset)
        if passed != (self._marks[-1][1] if self._marks else self._confirmed):
            if len(self._marks) >= MARKS_MAX:
                self._marks.pop()  # of the newest one knows less exactly then, and it counts too many
            self._marks.append((self.committable, passed))
        return self.committable

    def confirmed(self, offset: int) -> None:
        """The broker is known to hold this offset."""
        while self._marks and self._marks[0][0] <= offset:
            self._confirmed = self._marks.popleft()[1]

    def unconfirmed(self, *, has_kept: bool = False) -> int:
        """Messages that have ended and will come again, since nobody has confirmed an offset above them; `has_kept`:
        those above a gap will not, a record of progress names them.
        """
        ended = self._passed + (self._chunks[0].low if self._chunks else 0)
        if not has_kept:
            ended += sum(chunk.low for chunk in list(self._chunks)[1:])
            ended += sum(chunk.ahead.bit_count() for chunk in self._chunks)
        return ended - self._confirmed

    def release(self, chunk: Chunk) -> None:
        """A chunk finished while one before it has not: let go of its messages and bytes, keep its range.

        Otherwise one stuck handler would pin every later chunk, and stop the queue by count and bytes.
        """
        is_behind_a_gap = chunk.end > self.committable  # what `settle` took from the front is counted no more
        if chunk.low >= chunk.count and chunk.count and is_behind_a_gap and not self.is_closed:
            self._let_go(chunk)
            last = chunk.messages[-1]
            chunk.last = last.queue_offset, last.stored_ms, last.commit_log_offset
            # `next` and `low` stay: a worker that is inside this chunk now still compares them with the old count.
            chunk.messages, chunk.count, chunk.size = (), 0, 0

    def fold(self) -> None:
        """Make one of neighbours that have let go of their messages: a gap that stays open for hours, with all that
        ends behind it, costs no more memory than the gaps do.
        """
        chunks = self._chunks
        if len(chunks) < 3:
            return
        folded: deque[Chunk] = deque()
        for chunk in chunks:
            before = folded[-1] if folded else None
            if before is not None and not (before.count or chunk.count):
                before.end, before.last = chunk.end, chunk.last or before.last
                before.low += chunk.low
            else:
                folded.append(chunk)
        self._chunks = folded

    def _let_go(self, chunk: Chunk) -> None:
        self.messages -= chunk.count
        self.bytes -= chunk.size
        self._budget.give(chunk.size)

    def stop_handing_out(self) -> None:
        """The queue is being taken away: nothing more is started; what runs may still end and count."""
        self.is_draining, self.drains_to = True, 0
        for chunk in self._chunks:
            # Messages that nobody started are given back: their indexes stay below `count` and never end.
            chunk.next = max(chunk.next, chunk.count)
        for chunk, told in self.again.items():
            chunk.next = chunk.count
            told()

    def take_back(self) -> list[Chunk]:
        """Take what nobody has started out of the workers' hands: chunks of their own, which are offered to nobody."""
        taken: list[Chunk] = []
        for chunk in tuple(self._chunks):
            at, count = chunk.next, chunk.count
            if at < count:
                taken.append(self.cut(chunk, at))
                chunk.next = count  # a worker that is inside compares it with the old count, and leaves
        return taken

    def cut(self, chunk: Chunk, at: int) -> Chunk:
        """Divide a chunk of which nothing from `at` on was started; the other part stands behind it."""
        rest = chunk.cut(at)
        self._chunks.insert(self._chunks.index(chunk) + 1, rest)
        return rest

    @property
    def has_unstarted(self) -> bool:
        """Whether it holds messages that nobody has started."""
        return any(chunk.next < chunk.count for chunk in self._chunks)

    def close_gaps(self, least: int = 0) -> None:
        """Where it drains: have what is below all that has ended, or below `least`, be started yet."""
        if not self.is_draining or self.is_closed:
            return
        ends = [
            chunk.end if not chunk.count else chunk.messages[last].queue_offset + 1
            for chunk in self._chunks
            if (last := max(chunk.ahead.bit_length(), chunk.low) - 1) >= 0 or not chunk.count
        ]
        self.drains_to = max(self.drains_to, least, *ends)

    def close(self) -> None:
        """The queue is gone: give all bytes back. What ends from now on changes nothing."""
        if self.is_closed:
            return
        self.stop_handing_out()
        self.is_closed = True
        for chunk in self._chunks:
            self._budget.give(chunk.size)
        self.messages = self.bytes = 0

    @property
    def has_news(self) -> bool:
        """Whether `settle` and `confirmed` may tell something that was not `gathered` yet."""
        return bool(self._chunks or self._marks) or self.committable != self.gathered

    @property
    def unfinished(self) -> int:
        """Messages that have not ended."""
        return sum(chunk.count - chunk.low - chunk.ahead.bit_count() for chunk in self._chunks if chunk.count)

    @property
    def span(self) -> int:
        """Offsets between the lowest message that has not ended and the end of what was admitted."""
        return self.end - self.committable

    @property
    def is_empty(self) -> bool:
        return not self._chunks

    @property
    def chunks(self) -> Sequence[Chunk]:
        """For pictures and checks; change nothing."""
        return tuple(self._chunks)

    def __repr__(self) -> str:
        if self.is_closed:
            return "<Window closed>"
        return (
            f"<Window [{self.committable}, {self.end}) {len(self._chunks)} chunks, "
            f"{self.messages} messages, {self.bytes} bytes>"
        )


@dataclass(frozen=True, slots=True)
class FlowLimits:
    """Flow control: one owned queue's bounds, by which it may pull or not; the process's budget stands beside them."""

    messages_max: int = limits.CACHED_MESSAGES_MAX
    bytes_max: int = limits.CACHED_BYTES_MAX
    span_max: int = limits.SPAN_MAX
    topic_messages_max: int | None = None
    """Of a topic's owned queues together, beside each queue's own bound."""
    topic_bytes_max: int | None = None

    @property
    def portion(self) -> int:
        """How many are popped at once at most: workers still have something to do when there is room for so many."""
        return max(self.messages_max // 3, 1)

    @property
    def is_shared(self) -> bool:
        return self.topic_messages_max is not None or self.topic_bytes_max is not None

    def of_one(self, queues: int) -> FlowLimits:
        """The bounds of one of so many owned queues: its even share of the topic's, at least one message, and never
        more than a queue's own. Java lets the last topic's share overwrite the bound of every topic's queues.
        """
        return replace(
            self,
            messages_max=_share(self.messages_max, self.topic_messages_max, queues),
            bytes_max=_share(self.bytes_max, self.topic_bytes_max, queues),
        )


def _share(own: int, of_topic: int | None, queues: int) -> int:
    return own if of_topic is None else min(own, max(1, of_topic // max(1, queues)))


def reason_to_wait(window: Window, bounds: FlowLimits, has_budget: bool) -> str | None:
    """None to go on, else the reason: "count", "bytes", "span" or "budget".

    A queue that holds nothing is never held by the budget alone when others hold it all for long: its pull waits for
    room, and room comes with every settled chunk.
    """
    if window.is_popped:
        # Exactly: what one member holds, no other can handle. What has ended in a pop that goes on is held no more.
        is_many = window.unfinished + bounds.portion > bounds.messages_max
    else:
        is_many = window.messages > bounds.messages_max
    if is_many:
        return "count"
    if window.bytes > bounds.bytes_max:
        return "bytes"
    # From the first to the last of them, as the Java client counts: a span of 2,000 has room for 2,001 offsets.
    is_far = window.end - window.committable - 1 > bounds.span_max and window.messages
    if is_far and not (window.is_kept or window.is_popped):
        return "span"
    return None if has_budget else "budget"
