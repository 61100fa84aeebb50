"""Committed offsets of one logical broker: the next message that a group has to handle in a queue.

As RocketMQ's, unconditional: a commit may go backwards.
"""

from __future__ import annotations

import sqlite3

from framework.broker.store.columns import OFFSETS, RESETS, Table
from framework.broker.store.sent_back import GroupPlace, Rewinds
from framework.broker.store.tables import SavedTable

OffsetTable = SavedTable[GroupPlace, int]


class Offsets:
    """Read from memory; written with the next group of writes."""

    def __init__(self, connection: sqlite3.Connection, broker: str, most: int) -> None:
        self._most = most
        self.table = _table(connection, broker, OFFSETS)
        self._topics: dict[str, dict[str, None]] = {}
        """Where each group ever committed: administrators ask for all groups one after the other."""
        self._groups: dict[str, dict[str, None]] = {}
        for key in self.table.keys():  # noqa: SIM118
            self._know(key)
        self.resets = _table(connection, broker, RESETS)
        """Offsets that an administrator set: the group's next pull is sent there, and commits wait for it."""
        self.rewinds = Rewinds(broker)
        """Commits that went backwards, for those who take what comes twice for one."""

    def get(self, group: str, topic: str, number: int) -> int | None:
        return self.table.get(GroupPlace(group, topic, number))

    def has_room(self, group: str, topic: str, number: int) -> bool:
        """Whether the group has an offset in the queue already, or another may be kept."""
        return len(self.table) < self._most or self.get(group, topic, number) is not None

    def put(self, group: str, topic: str, number: int, offset: int) -> None:
        key = GroupPlace(group, topic, number)
        if self.resets and key in self.resets:
            return
        before = self.table.get(key)
        if before != offset:
            self.table.put(key, offset)
            if before is None:
                self._know(key)
            elif offset < before:
                self.rewinds.note(key, before, offset)

    def reset(self, group: str, topic: str, number: int, offset: int) -> None:
        """Go on there, whatever members that do not know it yet commit."""
        key = GroupPlace(group, topic, number)
        self.table.put(key, offset)
        self.resets.put(key, offset)
        self._know(key)

    def take_reset(self, group: str, topic: str, number: int) -> int | None:
        """The offset to go on from, once."""
        key = GroupPlace(group, topic, number)
        offset = self.resets.get(key)
        self.resets.drop(key)
        return offset

    def topics_of(self, group: str) -> list[str]:
        """Topics in which the group ever committed."""
        return list(self._topics.get(group, ()))

    def groups_of(self, topic: str) -> list[str]:
        """Groups that ever committed in the topic."""
        return list(self._groups.get(topic, ()))

    def drop_where(self, *, group: str | None = None, topic: str | None = None) -> None:
        """Forget a group's or a topic's offsets."""
        for table in (self.table, self.resets):
            table.drop_where(lambda key: key.group == group or key.topic == topic)
        if group is not None:
            _forget(self._topics, self._groups, group)
        if topic is not None:
            _forget(self._groups, self._topics, topic)

    def _know(self, key: GroupPlace) -> None:
        self._topics.setdefault(key.group, {})[key.topic] = None
        self._groups.setdefault(key.topic, {})[key.group] = None


def _forget(of: dict[str, dict[str, None]], others: dict[str, dict[str, None]], name: str) -> None:
    for other in of.pop(name, ()):
        del others[other][name]
        if not others[other]:
            del others[other]


def _table(connection: sqlite3.Connection, broker: str, table: Table) -> OffsetTable:
    saved = OffsetTable(table, (broker,), to_key=tuple, to_row=lambda offset: (offset,))
    for group, topic, number, offset in saved.rows(connection):
        saved.load(GroupPlace(group, topic, number), offset)
    return saved
