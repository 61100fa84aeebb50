"""Budget: pulled bytes that are still referenced, all queues of the process together.

Counted a chunk at a time, because one message of a chunk keeps all of its bytes alive.
"""

from __future__ import annotations

from collections.abc import Callable


class Budget:
    """A purse of bytes. It may be overdrawn by pulls already under way; whoever asks first sees no room."""

    __slots__ = ("_on_change", "limit", "used")

    def __init__(self, limit: int, on_change: Callable[[], None] = lambda: None) -> None:
        """`on_change` is called when the room ends and when it comes back."""
        assert limit > 0
        self.limit = limit
        self.used = 0
        self._on_change = on_change

    @property
    def has_room(self) -> bool:
        """Whether another pull may start. One message larger than the whole budget is taken alone."""
        return self.used < self.limit

    def take(self, size: int) -> None:
        had_room = self.used < self.limit
        self.used += size
        if had_room and self.used >= self.limit:
            self._on_change()

    def give(self, size: int) -> None:
        had_room = self.used < self.limit
        self.used -= size
        assert self.used >= 0
        if not had_room and self.used < self.limit:
            self._on_change()

    def resize(self, limit: int) -> None:
        """Hold so much from now on. What is held already may be more: then nothing is pulled until it has ended."""
        assert limit > 0
        had_room, self.limit = self.has_room, limit
        if had_room != self.has_room:
            self._on_change()

    def __repr__(self) -> str:
        return f"<Budget {self.used} of {self.limit} bytes>"
