"""Removing the oldest messages: first their queues' lowest offsets rise, for everybody and on disk, then the rows go.

So no reader ever looks for a row that has gone, and a crash between the two leaves rows that nobody can reach and that
the next round removes. Statements only; what is too old and when a step is taken are known elsewhere.
"""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

from framework.broker.store.log import is_sound
from framework.broker.store.queues import OFFSET_BITS, OFFSET_MAX, Queue, Queues
from framework.broker.store.writer import STAMP_BYTES, Transaction, stamp_of

# One step's messages: they hold the loop for some milliseconds. Large ones cost by their pages.
STEP_ROWS = 500
STEP_BYTES = 2 * 1024 * 1024
_STEP_KEY_ROWS = 50


class Bounds(NamedTuple):
    """What is too old: stored before `before_ms`, and standing in front of `before_place`."""

    before_ms: int
    before_place: int


class ExpiryStep(NamedTuple):
    """One step's worth: where each queue begins from now on, and where in the log the next step goes on."""

    lows: dict[Queue, int]
    next_place: int
    oldest_ms: int
    """No message that is left was stored before."""
    size: int


def choose(
    transaction: Transaction, queues: Queues, start: int, bounds: Bounds, waiting: frozenset[str]
) -> ExpiryStep | None:
    """Raise the lowest offsets past some of the oldest messages; None where none is too old.

    Messages that wait for their time or for the end of a transaction (in topics named `waiting`) stay, with all in
    these topics that came after the first of them. The first message that is young ends the search, for store times
    never fall along the log. A row that is damaged in what it says of itself raises nothing: one flipped bit must not
    take a queue's sound messages along.
    """
    connection = transaction.connection
    rows = connection.execute(
        "SELECT id, place, stored_ms, ifnull(length(record), 0), substr(record, 1, ?) FROM messages"
        " WHERE place >= ? AND place < ? ORDER BY place LIMIT ?",
        (STAMP_BYTES, start, bounds.before_place, STEP_ROWS),
    )
    first_waiting: int | None = None
    lows: dict[Queue, int] = {}
    next_place, oldest_ms, size = start, 0, 0
    for message, place, told_ms, length, head in rows:
        stored_ms = _stored_ms(connection, message, place, told_ms, head)
        if stored_ms is None:
            continue
        if stored_ms >= bounds.before_ms or (size + length > STEP_BYTES and size):
            break
        next_place, oldest_ms = place + length, stored_ms
        queue = queues.of_message(message)
        if queue is None:  # of a deleted topic: removed with it
            continue
        if queue.topic in waiting:
            if first_waiting is None:
                first_waiting = _first_waiting(connection)
            if place >= first_waiting:
                continue
        size += length
        lows[queue] = max(queue.low, message - queue.base + 1)
    rows.close()
    if next_place == start:
        return None
    connection.executemany(
        "UPDATE queues SET low = ?, seal = ? WHERE id = ?",
        [(*queue.row(low)[-2:], queue.base >> OFFSET_BITS) for queue, low in lows.items()],
    )
    return ExpiryStep(lows, next_place, oldest_ms, size)


def remove(transaction: Transaction, cut: ExpiryStep) -> None:
    """Take out the rows that a committed cut has put out of reach, and the keys of none but such."""
    connection = transaction.connection
    transaction.mark_end()
    connection.executemany(
        "DELETE FROM messages WHERE id BETWEEN ? AND ?",
        [(queue.base, queue.base + low - 1) for queue, low in cut.lows.items()],
    )
    keys = connection.execute(
        "SELECT id, stored_ms FROM message_keys ORDER BY id LIMIT ?", (_STEP_KEY_ROWS,)
    ).fetchall()
    old = [id_ for id_, stored_ms in keys if stored_ms < cut.oldest_ms]
    if old:
        connection.execute("DELETE FROM message_keys WHERE id <= ?", (old[-1],))


def _stored_ms(connection: sqlite3.Connection, message: int, place: int, told_ms: object, head: object) -> int | None:
    """When a message was stored; None where its row cannot be believed.

    Row and record both say it. Where they differ a bit has flipped, and the record's checksum says in which of them.
    """
    stamp = stamp_of(head) if isinstance(head, bytes) else None
    if stamp is None or (stamp.offset, stamp.place) != (message & OFFSET_MAX, place):
        return None
    if stamp.stored_ms == told_ms:
        return stamp.stored_ms
    record, checksum = connection.execute("SELECT record, checksum FROM messages WHERE id = ?", (message,)).fetchone()
    if is_sound(record, checksum):
        return stamp.stored_ms
    return told_ms if isinstance(told_ms, int) else None


def _first_waiting(connection: sqlite3.Connection) -> int:
    (place,) = connection.execute(
        "SELECT min(place) FROM (SELECT min(place) AS place FROM delays"
        " UNION ALL SELECT min(place) FROM halves WHERE state = 0)"
    ).fetchone()
    return (1 << 62) if place is None else int(place)
