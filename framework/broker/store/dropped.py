"""Deleting queues: gone at once for everybody, their messages removed in small steps that hold no writer for long."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

import structlog

from framework.broker.store.queues import OFFSET_BITS, OFFSET_MAX, Queue
from framework.broker.store.writer import Transaction, Writer
from framework.errors import FrameworkError

# One step's messages: some milliseconds. Large ones cost by their pages; one is taken whatever its size.
STEP_ROWS = 500
STEP_BYTES = 2 * 1024 * 1024


def drop(transaction: Transaction, queues: Iterable[Queue]) -> None:
    """Take queues out of the store, inside a transaction; their messages stay for `clean` to remove."""
    transaction.flush()
    connection = transaction.connection
    transaction.mark_end()
    for queue in queues:
        number = queue.base >> OFFSET_BITS
        connection.execute("DELETE FROM queues WHERE id = ?", (number,))
        connection.execute("INSERT OR IGNORE INTO dropped_queues (id) VALUES (?)", (number,))


def is_any_left(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM dropped_queues LIMIT 1").fetchone() is not None


def clean(connection: sqlite3.Connection) -> bool:
    """Remove some messages of dropped queues; whether there are more to remove."""
    row = connection.execute("SELECT id FROM dropped_queues ORDER BY id LIMIT 1").fetchone()
    if row is None:
        return False
    base = row[0] << OFFSET_BITS
    last = _last_of_step(connection, base)
    if last is None:
        connection.execute("DELETE FROM dropped_queues WHERE id = ?", (row[0],))
    else:
        connection.execute("DELETE FROM messages WHERE id BETWEEN ? AND ?", (base, last))
    return True


def _last_of_step(connection: sqlite3.Connection, base: int) -> int | None:
    """The last message of a queue that one step may remove; None for an empty queue. Reads no record."""
    rows = connection.execute(
        "SELECT id, ifnull(length(record), 0) FROM messages WHERE id BETWEEN ? AND ? ORDER BY id LIMIT ?",
        (base, base + OFFSET_MAX, STEP_ROWS),
    )
    last, size = None, 0
    for message, length in rows:
        size += length
        if last is not None and size > STEP_BYTES:
            break
        last = message
    rows.close()
    return last


log = structlog.get_logger()


class Sweep:
    """Has a step ride with the next group of writes, and asks for another one: so neither writers nor readers wait."""

    def __init__(self, writer: Writer, reading: sqlite3.Connection) -> None:
        self._writer = writer
        self._reading = reading
        self._is_running = False

    def resume(self) -> None:
        """Go on with what an earlier process left."""
        if is_any_left(self._reading):
            self.start()

    def start(self) -> None:
        """A queue was dropped."""
        if not self._is_running:
            self._is_running = True
            self._writer.submit(lambda transaction: clean(transaction.connection), self._stepped)

    def _stepped(self, is_more: bool, error: FrameworkError | None) -> None:
        self._is_running = False
        if error is not None:
            log.warning("deleted messages not removed", reason=str(error))
        elif is_more:
            self.start()
