"""Line: messages of one owned queue that are handled one after the other, and what the first has gone through.

All messages of a queue are one line, or those of one key where the order of keys is kept. What fails stays where it is
and is tried again after a pause: nothing behind it starts. Attempts are counted here, in memory, as the Java client
does: a new owner counts anew. With commits by hand, what was handled ends when the handler says so. It knows no clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any, TypeAlias

from framework.core.portion import Portion
from framework.core.retry import SendBack
from framework.model.message import Message, repeated

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
        index, window, portions = portion.next + 1, portion.window, self._portions
        if (
            index >= portion.count or portion.gone or not portions or portions[0] is not portion
            or window.is_draining or window.is_closed
            or self._tries or self.last_error or self.is_reported or self.is_manual or self.copies
        ):  # fmt: skip
            return None
        portion.next = index
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
