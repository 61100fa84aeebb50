"""The schedule on disk: which stored message is due when. Statements only; when to look is known elsewhere."""

from __future__ import annotations

import sqlite3
from typing import Any, NamedTuple

from framework.broker.store.log import is_sound
from framework.broker.store.queues import OFFSET_BITS, Queue

# What is taken at once is copied to its real queue by the loop: 4 ms or so. One is taken whatever its size.
TAKE_BYTES = 2 * 1024 * 1024
# A message that cannot be delivered is kept at this time, behind all others, until somebody repairs it.
HELD_MS = 1 << 62


class Due(NamedTuple):
    """One message whose time has come. `record` is None where it is damaged or gone."""

    due_ms: int
    place: int
    queue_id: int
    record: bytes | None


def plan(connection: sqlite3.Connection, due_ms: int, place: int) -> None:
    """Put a stored message on the schedule."""
    connection.execute("INSERT INTO delays (due_ms, place, seal) VALUES (?, ?, ?)", (due_ms, place, ~due_ms))


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
    due = _due(connection, now_ms, limit)
    if any(seal != ~due_ms for due_ms, _, seal, *_ in due):
        return [Due(0, place, 0, None) for place in hold_damaged(connection)]
    taken = []
    for due_ms, place, _, message, checksum, record in due:
        is_whole = is_sound(record, checksum)
        if is_whole:
            connection.execute("DELETE FROM delays WHERE due_ms = ? AND place = ?", (due_ms, place))
        else:
            connection.execute(
                "UPDATE delays SET due_ms = ?, seal = ? WHERE due_ms = ? AND place = ?",
                (HELD_MS, ~HELD_MS, due_ms, place),
            )
        taken.append(Due(due_ms, place, 0 if message is None else message >> OFFSET_BITS, record if is_whole else None))
    return taken


def take_back(connection: sqlite3.Connection, due_ms: int, place: int) -> None:
    """Take a message off the schedule that is not to be delivered; nothing where it is not there any more."""
    connection.execute("DELETE FROM delays WHERE due_ms = ? AND place = ?", (due_ms, place))


def hold_damaged(connection: sqlite3.Connection) -> list[int]:
    """Hold whatever is not due when its plan said, so that it comes neither early nor silently never; the places.

    All rows are put anew, for one whose time had changed stands in the wrong place and is not found by it.
    """
    is_damaged = "SELECT place FROM delays WHERE seal IS NOT ~due_ms OR typeof(due_ms) <> 'integer'"
    damaged = {place for (place,) in connection.execute(is_damaged).fetchall()}
    if not damaged:
        return []
    rows = connection.execute("SELECT due_ms, place FROM delays").fetchall()
    connection.execute("DELETE FROM delays")
    for due_ms, place in rows:
        plan(connection, HELD_MS if place in damaged else due_ms, place)
    return sorted(damaged)


def _due(connection: sqlite3.Connection, now_ms: int, limit: int) -> list[tuple[int, int, int, int | None, int, Any]]:
    """The first that are due, no more than a step may take: their records are read one by one."""
    found: list[tuple[int, int, int, int | None, int, Any]] = []
    size = 0
    rows = connection.execute(
        "SELECT delays.due_ms, delays.place, delays.seal, messages.id, messages.checksum, messages.record FROM delays"
        " LEFT JOIN messages ON messages.place = delays.place"
        " WHERE delays.due_ms <= ? ORDER BY delays.due_ms, delays.place LIMIT ?",
        (now_ms, limit),
    )
    for row in rows:
        size += len(row[5] or b"")
        if found and size > TAKE_BYTES:
            break
        found.append(row)
    rows.close()
    return found
