"""The queues of the store: their numbers, and which offsets are there. Knows no messages.

`end` is what everybody may see: committed. `next` runs ahead of it while a group of writes is under way, and falls back
when that group fails, so that offsets stay dense.
"""

from __future__ import annotations

import sqlite3
from typing import Any

from framework.broker.store.seals import sealed

OFFSET_BITS = 40
OFFSET_MAX = (1 << OFFSET_BITS) - 1
COMMIT_MAX = OFFSET_MAX + 1  # the next one to handle, behind the last that a queue may have


class Queue:
    """One queue of one topic on one logical broker."""

    __slots__ = ("base", "broker", "end", "is_saved", "low", "next", "number", "topic")

    def __init__(self, broker: str, topic: str, number: int, base: int, *, low: int = 0, end: int = 0) -> None:
        self.broker = broker
        self.topic = topic
        self.number = number
        self.base = base
        """The id that offset 0 has in the message table."""
        self.low = low
        self.end = end
        self.next = end
        self.is_saved = end > 0 or low > 0

    def row(self, low: int) -> tuple[Any, ...]:
        """It as the table has it, with that lowest offset."""
        return sealed((self.base >> OFFSET_BITS, self.broker, self.topic, self.number, low))

    def __repr__(self) -> str:
        return f"<Queue {self.topic}@{self.broker}:{self.number} {self.low}..{self.end}>"


class Queues:
    """All queues that ever got a message."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._all: dict[tuple[str, str, int], Queue] = {}
        self._by_id: dict[int, Queue] = {}
        (dropped,) = connection.execute("SELECT max(id) FROM dropped_queues").fetchone()
        self.next_id = 1 if dropped is None else int(dropped) + 1
        """The id of the next new queue."""
        for number, broker, topic, queue_number, low in connection.execute(
            "SELECT id, broker, topic, number, low FROM queues ORDER BY id"
        ).fetchall():
            base = number << OFFSET_BITS
            (last,) = connection.execute(
                "SELECT max(id) FROM messages WHERE id BETWEEN ? AND ?", (base, base + OFFSET_MAX)
            ).fetchone()
            queue = Queue(broker, topic, queue_number, base, low=low, end=low if last is None else last - base + 1)
            queue.is_saved = True
            self._add(queue)

    def __len__(self) -> int:
        return len(self._all)

    def find(self, broker: str, topic: str, number: int) -> Queue | None:
        return self._all.get((broker, topic, number))

    def obtain(self, broker: str, topic: str, number: int) -> Queue:
        """The queue; a new one reaches the disk together with its first message."""
        queue = self._all.get((broker, topic, number))
        if queue is None:
            queue = Queue(broker, topic, number, self.next_id << OFFSET_BITS)
            self._add(queue)
        return queue

    def all(self) -> list[Queue]:
        """Every one that ever got a message."""
        return list(self._all.values())

    def of_topic(self, broker: str, topic: str) -> list[Queue]:
        """Those of a topic that ever got a message, by number."""
        found = [queue for queue in self._all.values() if queue.broker == broker and queue.topic == topic]
        return sorted(found, key=lambda queue: queue.number)

    def forget(self, queue: Queue) -> None:
        """It was deleted: the next write to its topic makes a new queue."""
        if self._all.get((queue.broker, queue.topic, queue.number)) is queue:
            del self._all[queue.broker, queue.topic, queue.number]
        self._by_id.pop(queue.base >> OFFSET_BITS, None)

    def restore(self, queue: Queue) -> None:
        """Its deletion failed. One that was made in its place went the same way."""
        self._add(queue)

    def of_message(self, message: int) -> Queue | None:
        """The queue that a message's id belongs to."""
        return self._by_id.get(message >> OFFSET_BITS)

    def by_id(self, number: int) -> Queue | None:
        return self._by_id.get(number)

    def _add(self, queue: Queue) -> None:
        number = queue.base >> OFFSET_BITS
        self._all[queue.broker, queue.topic, queue.number] = queue
        self._by_id[number] = queue
        self.next_id = max(self.next_id, number + 1)
