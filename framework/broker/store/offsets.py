"""Committed offsets of one logical broker: the next message that a group has to handle in a queue.

As RocketMQ's, unconditional: a commit may go backwards.
"""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

from framework.broker.store.seals import sealed
from framework.broker.store.sent_back import GroupPlace, Rewinds
from framework.broker.store.tables import SavedTable


class OffsetKey(NamedTuple):
    """Whose offset, where."""

    group: str
    topic: str
    number: int


OffsetTable = SavedTable[OffsetKey, int]


class Offsets:
    """Read from memory; written with the next group of writes."""

    def __init__(self, connection: sqlite3.Connection, broker: str) -> None:
        self.table = _table(connection, broker, _OFFSETS)
        self.resets = _table(connection, broker, _RESETS)
        """Offsets that an administrator set: the group's next pull is sent there, and commits wait for it."""
        self.rewinds = Rewinds(broker)
        """Commits that went backwards, for those who take what comes twice for one."""

    def get(self, group: str, topic: str, number: int) -> int | None:
        return self.table.get(OffsetKey(group, topic, number))

    def put(self, group: str, topic: str, number: int, offset: int) -> None:
        key = OffsetKey(group, topic, number)
        if self.resets and key in self.resets:
            return
        before = self.table.get(key)
        if before != offset:
            self.table.put(key, offset)
            if before is not None and offset < before:
                self.rewinds.note(GroupPlace(*key), before, offset)

    def reset(self, group: str, topic: str, number: int, offset: int) -> None:
        """Go on there, whatever members that do not know it yet commit."""
        key = OffsetKey(group, topic, number)
        self.table.put(key, offset)
        self.resets.put(key, offset)

    def take_reset(self, group: str, topic: str, number: int) -> int | None:
        """The offset to go on from, once."""
        key = OffsetKey(group, topic, number)
        offset = self.resets.get(key)
        self.resets.drop(key)
        return offset

    def topics_of(self, group: str) -> list[str]:
        """Topics in which the group ever committed."""
        return list(dict.fromkeys(key.topic for key, _ in self.table.items() if key.group == group))

    def groups_of(self, topic: str) -> list[str]:
        """Groups that ever committed in the topic."""
        return list(dict.fromkeys(key.group for key, _ in self.table.items() if key.topic == topic))

    def drop_where(self, *, group: str | None = None, topic: str | None = None) -> None:
        """Forget a group's or a topic's offsets."""
        for table in (self.table, self.resets):
            for key in table.keys():  # noqa: SIM118  # a table, not a dictionary
                if key.group == group or key.topic == topic:
                    table.drop(key)


class _Statements(NamedTuple):
    """How one of the two tables is written and read; their columns are the same."""

    upsert: str
    delete: str
    select: str


_OFFSETS = _Statements(
    "INSERT OR REPLACE INTO offsets (broker, consumer_group, topic, number, next_offset, seal)"
    " VALUES (?, ?, ?, ?, ?, ?)",
    "DELETE FROM offsets WHERE broker = ? AND consumer_group = ? AND topic = ? AND number = ?",
    "SELECT consumer_group, topic, number, next_offset FROM offsets WHERE broker = ?",
)
_RESETS = _Statements(
    "INSERT OR REPLACE INTO resets (broker, consumer_group, topic, number, next_offset, seal)"
    " VALUES (?, ?, ?, ?, ?, ?)",
    "DELETE FROM resets WHERE broker = ? AND consumer_group = ? AND topic = ? AND number = ?",
    "SELECT consumer_group, topic, number, next_offset FROM resets WHERE broker = ?",
)


def _table(connection: sqlite3.Connection, broker: str, statements: _Statements) -> OffsetTable:
    table = OffsetTable(
        upsert=statements.upsert,
        delete=statements.delete,
        to_row=lambda key, offset: sealed((broker, *key, offset)),
        to_key=lambda key: (broker, *key),
    )
    for group, topic, number, offset in connection.execute(statements.select, (broker,)).fetchall():
        table.load(OffsetKey(group, topic, number), offset)
    return table
