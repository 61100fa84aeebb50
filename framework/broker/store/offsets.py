"""Committed offsets of one logical broker: the next message that a group has to handle in a queue.

As RocketMQ's, unconditional: a commit may go backwards.
"""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

from framework.broker.store.tables import SavedTable


class OffsetKey(NamedTuple):
    """Whose offset, where."""

    group: str
    topic: str
    number: int


class Offsets:
    """Read from memory; written with the next group of writes."""

    def __init__(self, connection: sqlite3.Connection, broker: str) -> None:
        self.table: SavedTable[OffsetKey, int] = SavedTable(
            upsert="INSERT OR REPLACE INTO offsets (broker, consumer_group, topic, number, next_offset)"
            " VALUES (?, ?, ?, ?, ?)",
            delete="DELETE FROM offsets WHERE broker = ? AND consumer_group = ? AND topic = ? AND number = ?",
            to_row=lambda key, offset: (broker, *key, offset),
            to_key=lambda key: (broker, *key),
        )
        for group, topic, number, offset in connection.execute(
            "SELECT consumer_group, topic, number, next_offset FROM offsets WHERE broker = ?", (broker,)
        ).fetchall():
            self.table.load(OffsetKey(group, topic, number), offset)

    def get(self, group: str, topic: str, number: int) -> int | None:
        return self.table.get(OffsetKey(group, topic, number))

    def put(self, group: str, topic: str, number: int, offset: int) -> None:
        key = OffsetKey(group, topic, number)
        if self.table.get(key) != offset:
            self.table.put(key, offset)
