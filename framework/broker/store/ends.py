"""Where each queue ends, by more than its last row: a flipped bit in that row's key would take the message away unseen.

The index of places holds each message's id a second time, in the order of the log. A start reads the end of that index,
and for all before it what was noted of every queue now and then. It owns these notes and knows no record.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import NamedTuple

from framework.broker.store.columns import NAMED_VALUES
from framework.broker.store.queues import OFFSET_BITS, OFFSET_MAX, Queue, Queues
from framework.broker.store.seals import sealed
from framework.broker.store.trouble import DAMAGE

# Rows written between two notes. A start reads as many ids of the index, which takes a tenth of a second; noting a
# thousand queues takes some milliseconds.
CHANGES_BETWEEN = 100_000
_READ_MAX = 3 * CHANGES_BETWEEN
_SCOPE = "ends"
_PLACE, _NEXT_ID = "place", "next id"


class Lack(NamedTuple):
    """A queue whose last messages are not found by its key any more."""

    queue: Queue
    offset: int
    """The first of them."""
    missing: int


def settle(connection: sqlite3.Connection, queues: Queues) -> list[Lack]:
    """Have no queue end before a message that it had. What is found lacking stays so: reading it is an error."""
    noted = dict(connection.execute("SELECT name, value FROM named_values WHERE scope = ?", (_SCOPE,)).fetchall())
    place, next_id = int(noted.pop(_PLACE, 0)), int(noted.pop(_NEXT_ID, 1))
    queues.next_id = max(queues.next_id, next_id)  # a note must not be taken for a later queue's
    by_id = {queue.base >> OFFSET_BITS: queue for queue in queues.all()}
    ends = {number: max(queue.low, int(noted.get(str(number), 0))) for number, queue in by_id.items()}
    for message in _ids_from(connection, place):
        number, offset = message >> OFFSET_BITS, message & OFFSET_MAX
        if ends.get(number) == offset:  # one after the other: what does not fit may be damage of the index itself
            ends[number] = offset + 1
    found: list[Lack] = []
    for number, queue in by_id.items():
        if ends[number] > queue.end:
            found.append(Lack(queue, queue.end, ends[number] - queue.end))
            queue.end = queue.next = ends[number]
    return found


def _ids_from(connection: sqlite3.Connection, place: int) -> Iterator[int]:
    try:
        rows = connection.execute(
            "SELECT id FROM messages INDEXED BY messages_by_place WHERE place >= ? ORDER BY place LIMIT ?",
            (place, _READ_MAX),
        )
        for (message,) in rows:
            if isinstance(message, int):
                yield message
    except DAMAGE:
        return  # of the index: pulls do without it, and who asks it for a message is told


class Ends:
    """Rides with the writer's groups, and notes all ends with one of them in many."""

    is_dirty = False

    def __init__(self, connection: sqlite3.Connection, queues: Queues) -> None:
        self._queues = queues
        self._noted = connection.total_changes

    def save(self, connection: sqlite3.Connection) -> None:
        if connection.total_changes - self._noted < CHANGES_BETWEEN:
            return
        (last,) = connection.execute("SELECT max(place) FROM messages").fetchone()
        if last is not None:
            rows = [(_SCOPE, _PLACE, str(last + 1)), (_SCOPE, _NEXT_ID, str(self._queues.next_id))]
            rows += [
                (_SCOPE, str(queue.base >> OFFSET_BITS), str(queue.next)) for queue in self._queues.all() if queue.next
            ]
            connection.execute("DELETE FROM named_values WHERE scope = ?", (_SCOPE,))
            connection.executemany(NAMED_VALUES.insert, [sealed(row) for row in rows])
        self._noted = connection.total_changes

    def saved(self, *, committed: bool) -> None:
        if not committed:  # the note may be undone, too
            self._noted = -CHANGES_BETWEEN
