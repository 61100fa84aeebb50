"""Transactions on disk: which half message is open, how often it was asked about, how it ended. Statements only."""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

from framework.broker.store.columns import HALVES
from framework.broker.store.log import is_sound
from framework.broker.store.seals import sealed

OPEN, GIVEN_UP, COMMITTED, ROLLED_BACK = 0, 1, 8, 12


class Half(NamedTuple):
    """One transaction, by the place of its half message in the log."""

    broker: str
    place: int
    queue_offset: int
    group: str
    begun_ms: int
    checks: int
    due_ms: int
    """When its producers are asked next; once it is over, when that was."""
    state: int


def put(connection: sqlite3.Connection, half: Half) -> None:
    """Note a transaction, or what became of it."""
    connection.execute(HALVES.upsert, sealed(half))


def find(connection: sqlite3.Connection, broker: str, place: int) -> Half | None:
    row = connection.execute(f"{HALVES.select} WHERE broker = ? AND place = ?", (broker, place)).fetchone()
    return None if row is None else Half(*row[:-1])


def next_due_ms(connection: sqlite3.Connection, broker: str | None = None) -> int | None:
    """When the first open one is to be asked about; of all logical brokers where none is named."""
    what = "SELECT min(due_ms) FROM halves WHERE state = 0"
    asked = connection.execute(what) if broker is None else connection.execute(f"{what} AND broker = ?", (broker,))
    (due_ms,) = asked.fetchone()
    return None if due_ms is None else int(due_ms)


def due(connection: sqlite3.Connection, broker: str, now_ms: int, limit: int) -> list[Half]:
    """Open ones whose time has come, the longest due first."""
    rows = connection.execute(
        f"{HALVES.select} WHERE broker = ? AND state = 0 AND due_ms <= ? ORDER BY due_ms, place LIMIT ?",
        (broker, now_ms, limit),
    )
    return [Half(*row[:-1]) for row in rows.fetchall()]


def record_of(connection: sqlite3.Connection, half: Half) -> bytes | None:
    """The half message; None where it is gone or damaged."""
    row = connection.execute("SELECT record, checksum FROM messages WHERE place = ?", (half.place,)).fetchone()
    return row[0] if row is not None and is_sound(*row) else None


def forget_ended(connection: sqlite3.Connection, broker: str, before_ms: int, given_up_before_ms: int) -> None:
    """Forget how those ended that ended before this time; those given up, which may still be ended, only later."""
    connection.execute(
        "DELETE FROM halves WHERE broker = ? AND state <> 0 AND due_ms < CASE state WHEN 1 THEN ? ELSE ? END",
        (broker, given_up_before_ms, before_ms),
    )
