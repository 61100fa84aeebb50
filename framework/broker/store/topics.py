"""Topics and consumer groups of one logical broker, as they are saved. The rules for making them are elsewhere."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field
from json import dumps, loads

from framework.broker.store.seals import sealed
from framework.broker.store.tables import SavedTable

PERM_INHERIT = 1
PERM_WRITE = 2
PERM_READ = 4
PERM_READ_WRITE = PERM_READ | PERM_WRITE


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """What RocketMQ calls a TopicConfig."""

    name: str
    read_queues: int = 16
    write_queues: int = 16
    perm: int = PERM_READ_WRITE
    is_ordered: bool = False
    sys_flag: int = 0
    attributes: dict[str, str] = field(default_factory=dict)

    @property
    def is_readable(self) -> bool:
        return bool(self.perm & PERM_READ)

    @property
    def is_writable(self) -> bool:
        return bool(self.perm & PERM_WRITE)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredGroup:
    """What RocketMQ calls a SubscriptionGroupConfig, as far as brokers act on it."""

    name: str
    may_consume: bool = True
    may_broadcast: bool = True
    retry_queues: int = 1
    retries_max: int = 16
    notifies_members: bool = True
    forbidden: tuple[str, ...] = ()
    """Topics that it may not read."""
    kept: str = "{}"
    """JSON of the settings that nobody here acts on."""


TopicTable = SavedTable[str, Topic]
GroupTable = SavedTable[str, StoredGroup]


def load_topics(connection: sqlite3.Connection, broker: str) -> TopicTable:
    table = TopicTable(
        upsert="INSERT OR REPLACE INTO topics (broker, name, read_queues, write_queues, perm, is_ordered, sys_flag,"
        " attributes, seal) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        delete="DELETE FROM topics WHERE broker = ? AND name = ?",
        to_row=lambda name, topic: sealed((
            broker, name, topic.read_queues, topic.write_queues, topic.perm, topic.is_ordered, topic.sys_flag,
            dumps(topic.attributes),
        )),
        to_key=lambda name: (broker, name),
    )  # fmt: skip
    for row in connection.execute(
        "SELECT name, read_queues, write_queues, perm, is_ordered, sys_flag, attributes FROM topics WHERE broker = ?",
        (broker,),
    ).fetchall():
        topic = Topic(
            name=row[0], read_queues=row[1], write_queues=row[2], perm=row[3], is_ordered=bool(row[4]), sys_flag=row[5],
            attributes=loads(row[6]),
        )  # fmt: skip
        table.load(topic.name, topic)
    return table


def load_groups(connection: sqlite3.Connection, broker: str) -> GroupTable:
    table = GroupTable(
        upsert="INSERT OR REPLACE INTO consumer_groups (broker, name, may_consume, may_broadcast, retry_queues,"
        " retries_max, notifies_members, forbidden, kept, seal) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        delete="DELETE FROM consumer_groups WHERE broker = ? AND name = ?",
        to_row=lambda name, group: sealed((
            broker, name, group.may_consume, group.may_broadcast, group.retry_queues, group.retries_max,
            group.notifies_members, dumps(group.forbidden), group.kept,
        )),
        to_key=lambda name: (broker, name),
    )  # fmt: skip
    for row in connection.execute(
        "SELECT name, may_consume, may_broadcast, retry_queues, retries_max, notifies_members, forbidden, kept"
        " FROM consumer_groups WHERE broker = ?",
        (broker,),
    ).fetchall():
        group = StoredGroup(
            name=row[0], may_consume=bool(row[1]), may_broadcast=bool(row[2]), retry_queues=row[3], retries_max=row[4],
            notifies_members=bool(row[5]), forbidden=tuple(loads(row[6])), kept=row[7],
        )  # fmt: skip
        table.load(group.name, group)
    return table
