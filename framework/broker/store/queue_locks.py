"""Who holds which queue, on disk, for one logical broker. What a lock means and when it ends is known elsewhere."""

from __future__ import annotations

import sqlite3
from typing import TypeAlias

from framework.broker.store.columns import LOCKS
from framework.broker.store.tables import SavedTable
from framework.model.queue import MessageQueue

LockTable: TypeAlias = SavedTable[tuple[str, MessageQueue], str]


def load_locks(connection: sqlite3.Connection, broker: str) -> LockTable:
    """Client ids by group and queue, as they were saved last."""
    table: LockTable = SavedTable(
        LOCKS, (broker,), to_row=lambda client_id: (client_id,),
        to_key=lambda key: (key[0], key[1].topic, key[1].broker, key[1].number),
    )  # fmt: skip
    for group, topic, queue_broker, number, client_id in table.rows(connection):
        table.load((group, MessageQueue(topic, queue_broker, number)), client_id)
    return table
