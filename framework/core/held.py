"""Held: the popped messages of one broker that this member holds, each with its receipt and until when that is good.

A message leaves once: it has ended and is acknowledged, it is given back, or its receipt no longer counts. Until then
its time is renewed before it is over. It knows no clock, no request and no handler; receipts are whatever the caller
has.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

from framework.core.chunk import Chunk
from framework.model.message import Message

R = TypeVar("R")


class Entry(Generic[R]):
    """One message that is held."""

    __slots__ = ("is_lost", "is_stray", "message", "receipt", "until_ms")

    def __init__(self, message: Message, receipt: R, until_ms: int) -> None:
        self.message, self.receipt, self.until_ms = message, receipt, until_ms
        self.is_lost = False
        """Its receipt counts no more: it comes back by itself, whatever its handler answers."""
        self.is_stray = False
        """Nobody will handle it here: its pop was cancelled before it came in."""


class Held(Generic[R]):
    """One per popped queue. Messages are known by identity: the same one may come again while an older one is held."""

    def __init__(self) -> None:
        self._entries: dict[int, Entry[R]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def take(self, message: Message, receipt: R, until_ms: int) -> Entry[R]:
        """A message was popped; its receipt is good until then."""
        entry = self._entries[id(message)] = Entry(message, receipt, until_ms)
        return entry

    def find(self, message: Message) -> Entry[R] | None:
        return self._entries.get(id(message))

    def drop(self, entry: Entry[R]) -> bool:
        """Forget a message; False where it was forgotten before."""
        return self._entries.pop(id(entry.message), None) is not None

    def ended(self, chunk: Chunk) -> list[Entry[R]]:
        """Take out the chunk's messages that have ended and are still held: they are to be acknowledged."""
        found: list[Entry[R]] = []
        for index in range(min(chunk.count, len(chunk.messages))):
            if chunk.has_ended(index):
                entry = self._entries.pop(id(chunk.messages[index]), None)
                if entry is not None:
                    found.append(entry)
        return found

    def to_renew(self, now_ms: int, period_ms: int) -> list[Entry[R]]:
        """Those whose receipts have less than half of their time left, the shortest first."""
        due = [
            each
            for each in self._entries.values()
            if not (each.is_stray or each.is_lost) and each.until_ms - now_ms < period_ms // 2
        ]
        return sorted(due, key=lambda each: each.until_ms)

    def strays(self) -> list[Entry[R]]:
        return [each for each in self._entries.values() if each.is_stray]

    def take_all(self) -> list[Entry[R]]:
        """Take out all that is left: the queue is left."""
        found = list(self._entries.values())
        self._entries.clear()
        return found

    def set_astray(self, messages: Iterable[Message]) -> None:
        """Nobody here will handle these."""
        for message in messages:
            if (entry := self.find(message)) is not None:
                entry.is_stray = True
