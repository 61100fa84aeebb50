"""What is bounded by an amount: pulled bytes (Budget), messages in a time (Bucket), questions of others (Allowance).

They know no clock: time is an argument.
"""

from __future__ import annotations

from collections.abc import Callable

from framework.model.rate import Rate


class Budget:
    """Pulled bytes that are still referenced, all queues of the process together. Counted a chunk at a time, because
    one message of a chunk keeps all of its bytes alive. It may be overdrawn by pulls already under way; whoever asks
    first sees no room.
    """

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


PORTION_MS = 50.0  # what may go at once: twenty portions a second are smooth to a database, and few to us


class Bucket:
    """When the next messages of a limited rate may go.

    Kept as the instant up to which all is paid for, which needs no counting while nothing happens. A timer that wakes
    late is made up for, by as much as one portion takes; a quiet hour is not, or its messages would all come at once.
    """

    __slots__ = ("_each_ms", "due_ms", "portion", "rate")

    def __init__(self, rate: Rate, now_ms: float) -> None:
        self.rate = rate
        self._each_ms = rate.per_ms / rate.count
        self.portion = max(int(PORTION_MS / self._each_ms), 1)
        """Messages that go at once; one where they are seldom."""
        self.due_ms = now_ms
        """When the next may go."""

    def take(self, count: int, now_ms: float) -> None:
        """So many go now."""
        self.due_ms = max(self.due_ms, now_ms - PORTION_MS) + count * self._each_ms

    def __repr__(self) -> str:
        return f"<Bucket {self.rate}>"


class Allowance:
    """How much of us one asker, or all of them together, may have: in number and in time of the event loop.

    Both are a level that rises with what was asked and falls as time goes by, so that a quiet minute saves up no more
    than one burst.
    """

    __slots__ = ("_at_ms", "_count", "_count_max", "_spent_max_ms", "_spent_ms")

    def __init__(self, count_a_second: int, spent_ms_a_second: float, now_ms: float) -> None:
        self._count_max, self._spent_max_ms = count_a_second, spent_ms_a_second
        self._at_ms = now_ms
        self._count = self._spent_ms = 0.0

    def has_room(self, now_ms: float) -> bool:
        """Whether one more question may be answered now."""
        passed = max(now_ms - self._at_ms, 0.0) / 1000
        self._at_ms = now_ms
        self._count = max(self._count - passed * self._count_max, 0.0)
        self._spent_ms = max(self._spent_ms - passed * self._spent_max_ms, 0.0)
        return self._count + 1 <= self._count_max and self._spent_ms < self._spent_max_ms

    def take(self, spent_ms: float) -> None:
        """One was answered, and took so long."""
        self._count += 1
        self._spent_ms += spent_ms

    def __repr__(self) -> str:
        return f"<Allowance {self._count:.0f} of {self._count_max}, {self._spent_ms:.1f} of {self._spent_max_ms:g} ms>"
