"""Line: messages of one owned queue that are handled one after the other, and what the first has gone through.

All messages of a queue are one line, or those of one key where the order of keys is kept. What fails stays where it is
and is tried again after a pause: nothing behind it starts. Attempts are counted here, in memory, as the Java client
does: a new owner counts anew. With commits by hand, what was handled ends when the handler says so. It knows no clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from framework.core.chunk import Chunk
from framework.core.retry import SendBack
from framework.core.window import Window
from framework.model.message import Message, repeated


class Portion:
    """Those messages of a chunk that one line handles, with a cursor. Its line is its only writer.

    The whole chunk where the order of the queue is kept, the messages of one key where that of keys is. What ends is
    told to the chunk, which alone knows how far the offset may go.
    """

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


Place: TypeAlias = tuple[Portion, int]
"""One message of a line: the portion and the index in it."""


class Line:
    """The portions that wait, in the order in which they were pulled. Its worker is its only writer."""

    __slots__ = (
        "_not_before_ms", "_portions", "_tries", "_uncommitted", "after_copies", "copies", "is_manual", "is_reported",
        "key", "last_error", "run", "since_ms",
    )  # fmt: skip

    def __init__(self, key: str = "", *, is_manual: bool = False) -> None:
        self.key = key
        self.is_manual = is_manual
        """Messages that were handled end with a commit, and not before."""
        self.run: Any = None
        """What the shell runs this line with. Nothing here looks at it."""
        self._portions: deque[Portion] = deque()
        self._uncommitted: list[Portion] = []
        """Handled to their end, and not committed."""
        self._tries: dict[int, int] = {}
        """Offset -> tries that have failed here, of messages that are still to be handled."""
        self._not_before_ms = 0
        self.since_ms: int | None = None
        """When the first message was first started; None before."""
        self.last_error = ""
        self.copies: deque[tuple[Portion, int, SendBack]] = deque()
        """Messages that are given up: what is left to do is to have a broker keep them, not to run them again."""
        self.after_copies: list[Place] = []
        """Handled beside messages that are given up, and behind one of those: they end when it has."""
        self.is_reported = False
        """It was said that the first message has stood here for too long."""

    def offer(self, portion: Portion) -> None:
        self._portions.append(portion)

    def clear(self) -> None:
        """The queue is not ours any more, or not yet again."""
        self._portions.clear()
        self._uncommitted.clear()
        self._forget()

    # What is next

    @property
    def first(self) -> Portion | None:
        """The portion whose message at `next` is the first in line; None where nobody waits.

        A window that hands out nothing more has nobody in line, wherever its portions had got to, but what has to be
        handled yet for the sake of something that has ended behind it.
        """
        portions = self._portions
        while portions:
            portion = portions[0]
            window = portion.window
            is_over = window.is_draining and not window.drains_to
            if not is_over:
                if portion.gone:
                    portion.skip_gone()
                if portion.next < portion.count:
                    is_over = window.is_draining and portion.messages[portion.next].queue_offset >= window.drains_to
                    if not is_over:
                        return portion
            portions.popleft()
            if self.is_manual and portion.ended < portion.next:
                self._uncommitted.append(portion)
            if is_over:
                self._forget()
        return None

    @property
    def message(self) -> Message:
        """The first message, with its attempts."""
        portion = self.first
        assert portion is not None, "nobody is in line"
        return self.as_tried(portion, portion.next)

    def as_tried(self, portion: Portion, index: int) -> Message:
        """A message of this line as its next try sees it."""
        # Of what was pulled, not of its last try: tries without end would else be a chain without end.
        pulled = portion.messages[index]
        failed = self._tries.get(pulled.queue_offset) if self._tries else None
        return pulled if failed is None else repeated(pulled, pulled.attempt + failed)

    def take(self, count: int) -> list[Place]:
        """So many messages from the first on, or as many as there are. They stay in line."""
        places: list[Place] = []
        if self.first is None:
            return places
        for portion in self._portions:
            window = portion.window
            for index in range(portion.next, portion.count):
                if window.is_draining and portion.messages[index].queue_offset >= window.drains_to:
                    break
                if not portion.gone >> index & 1:
                    places.append((portion, index))
                    if len(places) == count:
                        return places
        return places

    def has(self, count: int) -> bool:
        """Whether at least so many wait."""
        return len(self.take(count)) == count

    @property
    def attempt(self) -> int:
        """Tries of the first message that have failed here."""
        portion = self.first
        return 0 if portion is None else self._tries.get(portion.messages[portion.next].queue_offset, 0)

    def wait_ms(self, now_ms: int) -> int:
        """How long the first message must still be left alone."""
        return max(0, self._not_before_ms - now_ms)

    # What came of it

    def advance(self, portion: Portion, count: int) -> None:
        """The first `count` messages of the portion were handled."""
        assert portion.next + count <= portion.count
        begin = portion.next
        self._forget_first(portion.messages[begin : begin + count] if self._tries else ())
        portion.next = begin + count
        if not self.is_manual:
            portion.end(portion.next)

    def went_well(self, portion: Portion, now_ms: int) -> Message | None:
        """The first message was plain success: the next one, which begins now. None, and nothing has changed, where
        there is more to look at: the portion's last message, tries that failed, commits by hand, a queue that is left.
        """
        begin, window, portions = portion.next, portion.window, self._portions
        index = begin + 1
        if (
            index >= portion.count or portion.gone or not portions or portions[0] is not portion
            or window.is_draining or window.is_closed
            or self._tries or self.last_error or self.is_reported or self.is_manual or self.copies
        ):  # fmt: skip
            return None
        portion.next = index
        chunk = portion.chunk
        if portion._places is None and chunk.low == begin == portion.ended and not chunk.ahead:  # noqa: SLF001
            portion.ended = chunk.low = index  # as `end` does, without a call: every message passes here
        else:
            portion.end(index)
        self.since_ms = now_ms
        return portion.messages[index]

    def advance_over(self, places: Iterable[Place]) -> None:
        """These were handled, and nothing before them is left."""
        for portion, index in places:
            portion.skip_gone()
            assert portion.next == index, f"{portion}: {index} ended before its turn"
            self.advance(portion, 1)

    def end_one(self, portion: Portion, index: int) -> None:
        """Let one message end, wherever it stands: it is kept elsewhere, or was settled without being handled."""
        is_first = portion.next == index
        portion.end_one(index)
        if is_first:
            self._forget_first((portion.messages[index],))
        else:
            self._tries.pop(portion.messages[index].queue_offset, None)

    def commit(self, portion: Portion) -> list[Portion]:
        """What was handled up to here has ended. `portion` is the one whose handler says so."""
        ended = self._handled()
        if portion not in ended:  # its window hands out nothing more, and it is out of line
            ended.append(portion)
        for each in ended:
            each.end(each.next)
        self._uncommitted.clear()
        return ended

    def roll_back(self, portion: Portion) -> None:
        """What was handled since the last commit is first in line again."""
        for each in (*self._handled(), portion):
            each.next = each.ended
        self._portions.extendleft(reversed(self._uncommitted))
        self._uncommitted.clear()

    def stay(
        self, now_ms: int, pause_ms: int, reason: str, *, counts: bool = True, tried: Iterable[Place] | None = None
    ) -> None:
        """The first message stays where it is and is tried again after the pause, with those tried beside it."""
        self._not_before_ms = now_ms + pause_ms
        self.last_error = reason
        if not counts:
            return
        if tried is None:
            portion = self.first
            assert portion is not None, "nobody is in line"
            tried = ((portion, portion.next),)
        for portion, index in tried:
            offset = portion.messages[index].queue_offset
            self._tries[offset] = self._tries.get(offset, 0) + 1

    def _handled(self) -> list[Portion]:
        """Where something was handled and waits for a commit, in order."""
        return [*self._uncommitted, *(each for each in self._portions if each.ended < each.next)]

    # Pictures

    @property
    def uncommitted(self) -> int:
        """Messages that were handled and wait for a commit."""
        return sum(each.next - each.ended for each in self._handled())

    def is_stuck(self, now_ms: int, patience_ms: int) -> bool:
        """Whether the first message has stood here for so long."""
        return self.since_ms is not None and now_ms - self.since_ms >= patience_ms

    @property
    def blocked_because(self) -> str | None:
        """Why the first message is not past, for pictures; None while nothing has failed."""
        if not self.last_error:
            return "its handler has not ended for long" if self.is_reported else None
        return f"blocked after {self.attempt} attempts: {self.last_error}"

    def _forget_first(self, handled: Iterable[Message]) -> None:
        for message in handled:
            self._tries.pop(message.queue_offset, None)
        self.since_ms = None
        self._not_before_ms = 0
        self.last_error = ""
        self.is_reported = False

    def _forget(self) -> None:
        self._tries.clear()
        self.copies.clear()
        self.after_copies.clear()
        self._forget_first(())

    def __repr__(self) -> str:
        return f"<Line {self.key!r} {self.first} attempt={self.attempt} {len(self._portions)} portions>"


NO_KEY = ""


class Lanes:
    """The lines of one owned queue: a single one where the queue's order is kept, one a key where that of keys is. A
    line is there while it has messages, so there are never more than the window holds. The same key is the same line
    for as long as any of its messages is at work.
    """

    __slots__ = ("_is_manual", "_key_of", "_lines")

    def __init__(self, key_of: Callable[[Message], str] | None = None, *, is_manual: bool = False) -> None:
        self._key_of, self._is_manual = key_of, is_manual
        self._lines: dict[str, Line] = {}

    @property
    def is_by_key(self) -> bool:
        return self._key_of is not None

    def offer(self, chunk: Chunk) -> Sequence[Line]:
        """Put the chunk's messages in line; answers the lines that got some, in the order of their first messages."""
        chunk.next = chunk.count  # they are their lines' from here on
        if self._key_of is None:
            line = self._line(NO_KEY)
            line.offer(Portion(chunk, chunk.messages))
            return (line,)
        places: dict[str, list[int]] = {}
        for index, message in enumerate(chunk.messages):
            places.setdefault(self._key_of(message), []).append(index)
        lines = []
        for key, indexes in places.items():
            line = self._line(key)
            line.offer(Portion(chunk, [chunk.messages[index] for index in indexes], indexes))
            lines.append(line)
        return lines

    def _line(self, key: str) -> Line:
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = Line(key, is_manual=self._is_manual)
        return line

    def drop(self, line: Line) -> None:
        """Nobody is in this line, and nothing of it runs."""
        if self.is_by_key:
            self._lines.pop(line.key, None)

    def clear(self) -> None:
        """Nobody is in line any more. Lines stay until `drop`: what runs of them keeps its place."""
        for line in self._lines.values():
            line.clear()

    def __iter__(self) -> Iterator[Line]:
        return iter(self._lines.values())

    def __len__(self) -> int:
        return len(self._lines)

    def __repr__(self) -> str:
        return f"<Lanes {'by key' if self.is_by_key else 'one'}: {len(self._lines)} lines>"
