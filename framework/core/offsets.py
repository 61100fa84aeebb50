"""OffsetTable: a group's committable offsets, and which of them the broker has not been told; Reached: where queues
were that were left since their broker was away.
"""

from __future__ import annotations

from collections.abc import Iterable

from framework.model.queue import MessageQueue


class OffsetTable:
    """One per group. Offsets only go forward while a queue is owned; what the broker was told says what is dirty."""

    __slots__ = ("_committable", "_confirmed", "_heard", "_news", "_told")

    def __init__(self) -> None:
        self._committable: dict[MessageQueue, int] = {}
        self._told: dict[MessageQueue, int] = {}
        self._confirmed: dict[MessageQueue, int] = {}
        self._heard: dict[MessageQueue, int] = {}
        """What was the last news of a queue, or stored when it began: an offset that is said again is none."""
        self._news: dict[MessageQueue, int] | None = None

    def keep_news(self) -> None:
        """Somebody wants to hear which offsets brokers are told."""
        self._news = {}

    def news(self) -> dict[MessageQueue, int]:
        """What they were told since the last time; nothing where nobody wants to hear of it."""
        found = self._news
        if found:
            self._news = {}
        return found or {}

    def begin(self, queue: MessageQueue, offset: int, *, stored: int | None) -> None:
        """A queue was positioned, or moved by its broker; `stored` is what the broker holds, None where nothing."""
        self._committable[queue] = offset
        self._told[queue] = self._confirmed[queue] = self._heard[queue] = -1 if stored is None else stored

    def advance(self, queue: MessageQueue, offset: int) -> None:
        """Raise the committable offset; a lower one is an older message's late end and changes nothing."""
        if offset > self._committable.get(queue, -1) and queue in self._committable:
            self._committable[queue] = offset

    def mark_sent(self, queue: MessageQueue, offset: int) -> None:
        """The broker was sent this offset. One that has moved on meanwhile stays dirty; where the queue was moved back
        meanwhile, what was sent before says nothing of what the broker has to be told now.
        """
        if queue in self._told and offset <= self._committable[queue]:
            if self._news is not None and offset > self._heard[queue]:
                self._news[queue] = self._heard[queue] = offset
            self._told[queue] = max(self._told[queue], offset)

    def confirmed(self, queue: MessageQueue, offset: int) -> None:
        """The broker answered that it holds this offset; `mark_sent` says when that is no news."""
        if queue in self._confirmed and offset <= self._committable[queue]:
            self._confirmed[queue] = max(self._confirmed[queue], offset)
            self.mark_sent(queue, offset)

    def held(self, queue: MessageQueue) -> int:
        """What the broker is known to hold; -1 where that is nothing."""
        return self._confirmed.get(queue, -1)

    def unconfirmed(self, queue: MessageQueue) -> int | None:
        """The offset that a forced flush must have answered; None where the broker is known to hold it."""
        offset = self._committable.get(queue)
        return offset if offset is not None and self._says_something(queue, offset, self._confirmed[queue]) else None

    def _says_something(self, queue: MessageQueue, offset: int, known: int) -> bool:
        """Whether the broker learns from it. 0 is told where nothing is stored, and only there: it says that the group
        was here, so that whoever comes next neither begins at the end nor cannot be reset.
        """
        return offset != known and (offset > 0 or self._confirmed[queue] < 0)

    def mark_unsent(self, queue: MessageQueue) -> None:
        """What was sent may not have arrived, or not have stayed: send it again."""
        if queue in self._told:
            self._told[queue] = -1

    def forget(self, queue: MessageQueue) -> None:
        self._committable.pop(queue, None)
        self._told.pop(queue, None)
        self._confirmed.pop(queue, None)
        self._heard.pop(queue, None)

    def committable(self, queue: MessageQueue) -> int | None:
        return self._committable.get(queue)

    def dirty(self) -> list[tuple[MessageQueue, int]]:
        """What the broker should be told, in the order of the queues."""
        told = self._told
        return sorted(
            (queue, offset)
            for queue, offset in self._committable.items()
            if offset != told[queue] and self._says_something(queue, offset, told[queue])
        )

    def __repr__(self) -> str:
        return f"<OffsetTable {len(self._committable)} queues, {len(self.dirty())} dirty>"


class Reached:
    """Below these offsets all was done here, and nobody else can have gone on since; one a group.

    A broker that was away may come back with older offsets, and who gets a queue again goes on where it was.
    """

    __slots__ = ("_offsets",)

    def __init__(self) -> None:
        self._offsets: dict[MessageQueue, int] = {}

    def note(self, queue: MessageQueue, offset: int) -> None:
        self._offsets[queue] = offset

    def take(self, queue: MessageQueue) -> int | None:
        """What is known of a queue that is taken, or moved by somebody; from then on nothing is."""
        return self._offsets.pop(queue, None)

    def offered(self, queues: Iterable[MessageQueue], own: Iterable[MessageQueue]) -> None:
        """These can be had now: whoever has what is not our own knows better."""
        if self._offsets:
            for queue in set(queues).difference(own) & self._offsets.keys():
                del self._offsets[queue]
