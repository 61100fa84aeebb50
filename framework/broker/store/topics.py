"""Topics and consumer groups of one logical broker, as they are saved. The rules for making them are elsewhere."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field
from json import dumps, loads

from framework.broker.store.columns import GROUPS, TOPICS
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
        TOPICS, (broker,), to_key=lambda name: (name,),
        to_row=lambda topic: (
            topic.read_queues, topic.write_queues, topic.perm, topic.is_ordered, topic.sys_flag,
            dumps(topic.attributes),
        ),
    )  # fmt: skip
    for name, read_queues, write_queues, perm, is_ordered, sys_flag, attributes in table.rows(connection):
        table.load(
            name,
            Topic(
                name=name, read_queues=read_queues, write_queues=write_queues, perm=perm, is_ordered=bool(is_ordered),
                sys_flag=sys_flag, attributes=loads(attributes),
            ),
        )  # fmt: skip
    return table


def load_groups(connection: sqlite3.Connection, broker: str) -> GroupTable:
    table = GroupTable(
        GROUPS, (broker,), to_key=lambda name: (name,),
        to_row=lambda group: (
            group.may_consume, group.may_broadcast, group.retry_queues, group.retries_max, group.notifies_members,
            dumps(group.forbidden), group.kept,
        ),
    )  # fmt: skip
    for name, *row in table.rows(connection):
        group = StoredGroup(
            name=name, may_consume=bool(row[0]), may_broadcast=bool(row[1]), retry_queues=row[2], retries_max=row[3],
            notifies_members=bool(row[4]), forbidden=tuple(loads(row[5])), kept=row[6],
        )  # fmt: skip
        table.load(name, group)
    return table
