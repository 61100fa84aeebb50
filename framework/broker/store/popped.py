"""Popped messages on disk: who holds which one, and until when. Statements only.

A message has at most one row per group, so at most one receipt that counts: a later pop of it replaces the row, and
what an outdated receipt asks for is not done.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import NamedTuple

from framework.broker.store.columns import POPPED
from framework.broker.store.log import is_sound
from framework.broker.store.queues import OFFSET_MAX, Queue
from framework.broker.store.seals import sealed

# A message that cannot be delivered again stays here, behind all others, until somebody repairs it.
HELD_MS = 1 << 62


class PoppedRow(NamedTuple):
    """One message that somebody holds."""

    broker: str
    group: str
    message: int
    popped_ms: int
    due_ms: int


class Overdue(NamedTuple):
    """One whose time is over. `record` is None where it is damaged, empty where it is gone."""

    popped: PoppedRow
    record: bytes | None


def put(connection: sqlite3.Connection, rows: Iterable[PoppedRow]) -> None:
    """Note who holds them from now on."""
    connection.executemany(POPPED.upsert, [sealed(row) for row in rows])


def is_held(connection: sqlite3.Connection, broker: str, group: str, message: int, popped_ms: int) -> bool:
    """Whether the receipt of that time is the one that counts."""
    row = connection.execute(
        f"{POPPED.select} WHERE broker = ? AND consumer_group = ? AND message = ?", (broker, group, message)
    ).fetchone()
    return row is not None and bool(row[3] == popped_ms)


def remove(connection: sqlite3.Connection, broker: str, group: str, message: int, popped_ms: int) -> None:
    """Forget a message that is acknowledged; nothing where that receipt does not count."""
    connection.execute(
        "DELETE FROM popped WHERE broker = ? AND consumer_group = ? AND message = ? AND popped_ms = ?",
        (broker, group, message, popped_ms),
    )


def forget_queue(connection: sqlite3.Connection, broker: str, group: str, queue: Queue) -> None:
    """Forget whatever a group holds of a queue."""
    connection.execute(
        "DELETE FROM popped WHERE broker = ? AND consumer_group = ? AND message BETWEEN ? AND ?",
        (broker, group, queue.base, queue.base + OFFSET_MAX),
    )


def forget_group(connection: sqlite3.Connection, broker: str, group: str) -> None:
    connection.execute("DELETE FROM popped WHERE broker = ? AND consumer_group = ?", (broker, group))


def next_due_ms(connection: sqlite3.Connection, broker: str | None = None) -> int | None:
    """When the first invisible time is over; of all logical brokers where none is named."""
    what, bound = "SELECT min(due_ms) FROM popped WHERE due_ms < ?", (HELD_MS,)
    asked = connection.execute(what, bound) if broker is None else connection.execute(
        f"{what} AND broker = ?", (*bound, broker)
    )  # fmt: skip
    (due_ms,) = asked.fetchone()
    return None if due_ms is None else int(due_ms)


def take_due(connection: sqlite3.Connection, broker: str, now_ms: int, limit: int) -> list[Overdue]:
    """Take those whose time is over, the longest over first. A damaged one stays, held."""
    rows = connection.execute(
        "SELECT popped.consumer_group, popped.message, popped.popped_ms, popped.due_ms, messages.checksum,"
        " messages.record FROM popped LEFT JOIN messages ON messages.id = popped.message"
        " WHERE popped.broker = ? AND popped.due_ms <= ? ORDER BY popped.due_ms, popped.message LIMIT ?",
        (broker, now_ms, limit),
    ).fetchall()
    taken: list[Overdue] = []
    for group, message, popped_ms, due_ms, checksum, record in rows:
        popped = PoppedRow(broker, group, message, popped_ms, due_ms)
        if record is not None and not is_sound(record, checksum):
            put(connection, [popped._replace(due_ms=HELD_MS)])
            taken.append(Overdue(popped, None))
        else:
            remove(connection, broker, group, message, popped_ms)
            taken.append(Overdue(popped, record or b""))
    return taken
