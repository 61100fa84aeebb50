"""The schedule on disk: which stored message is due when. Statements only; when to look is known elsewhere."""

from __future__ import annotations

import sqlite3
from typing import NamedTuple
from zlib import crc32

from framework.broker.store.queues import OFFSET_BITS, Queue

# What cannot be delivered is kept here, out of the way of all others, for whoever repairs it.
HELD_MS = 1 << 62


class Due(NamedTuple):
    """One message whose time has come. `record` is None where it is damaged or gone."""

    due_ms: int
    place: int
    queue_id: int
    record: bytes | None


def plan(connection: sqlite3.Connection, due_ms: int, place: int) -> None:
    """Put a stored message on the schedule."""
    connection.execute("INSERT INTO delays (due_ms, place) VALUES (?, ?)", (due_ms, place))


def next_due_ms(connection: sqlite3.Connection) -> int | None:
    """When the first one is due."""
    (due_ms,) = connection.execute("SELECT min(due_ms) FROM delays WHERE due_ms < ?", (HELD_MS,)).fetchone()
    return due_ms if due_ms is None else int(due_ms)


def first_waiting(connection: sqlite3.Connection, queue: Queue) -> int:
    """The offset of the first message of a schedule queue that still waits; the queue's end where none does."""
    (message,) = connection.execute(
        "SELECT min(messages.id) FROM delays JOIN messages ON messages.place = delays.place"
        " WHERE messages.id BETWEEN ? AND ?",
        (queue.base + queue.low, queue.base + queue.end),
    ).fetchone()
    return queue.end if message is None else int(message) - queue.base


def take_due(connection: sqlite3.Connection, now_ms: int, limit: int) -> list[Due]:
    """Take what is due off the schedule, in due order. A damaged message stays on it, held."""
    rows = connection.execute(
        "SELECT delays.due_ms, delays.place, messages.id, messages.checksum, messages.record FROM delays"
        " LEFT JOIN messages ON messages.place = delays.place"
        " WHERE delays.due_ms <= ? ORDER BY delays.due_ms, delays.place LIMIT ?",
        (now_ms, limit),
    ).fetchall()
    taken = []
    for due_ms, place, message, checksum, record in rows:
        is_sound = record is not None and crc32(record) == checksum
        if is_sound:
            connection.execute("DELETE FROM delays WHERE due_ms = ? AND place = ?", (due_ms, place))
        else:
            connection.execute("UPDATE delays SET due_ms = ? WHERE due_ms = ? AND place = ?", (HELD_MS, due_ms, place))
        taken.append(Due(due_ms, place, 0 if message is None else message >> OFFSET_BITS, record if is_sound else None))
    return taken
