"""Lanes: the lines of one owned queue: a single one where the queue's order is kept, one a key where that of keys is.

A line is there while it has messages, so there are never more than the window holds. It knows no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from framework.core.chunk import Chunk
from framework.core.line import Line
from framework.core.portion import Portion
from framework.model.message import Message

NO_KEY = ""


class Lanes:
    """Divides chunks among lines. The same key is the same line for as long as any of its messages is at work."""

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
