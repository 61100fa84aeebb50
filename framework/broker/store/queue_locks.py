"""Who holds which queue, on disk, for one logical broker. What a lock means and when it ends is known elsewhere."""

from __future__ import annotations

import sqlite3
from typing import TypeAlias

from framework.broker.store.seals import sealed
from framework.broker.store.tables import SavedTable
from framework.model.queue import MessageQueue

LockTable: TypeAlias = SavedTable[tuple[str, MessageQueue], str]


def load_locks(connection: sqlite3.Connection, broker: str) -> LockTable:
    """Client ids by group and queue, as they were saved last."""
    table: LockTable = SavedTable(
        upsert="INSERT OR REPLACE INTO queue_locks (broker, consumer_group, topic, queue_broker, number, client_id,"
        " seal) VALUES (?, ?, ?, ?, ?, ?, ?)",
        delete="DELETE FROM queue_locks"
        " WHERE broker = ? AND consumer_group = ? AND topic = ? AND queue_broker = ? AND number = ?",
        to_row=lambda key, client_id: sealed((broker, key[0], *_columns(key[1]), client_id)),
        to_key=lambda key: (broker, key[0], *_columns(key[1])),
    )
    rows = connection.execute(
        "SELECT consumer_group, topic, queue_broker, number, client_id FROM queue_locks WHERE broker = ?", (broker,)
    )
    for group, topic, queue_broker, number, client_id in rows.fetchall():
        table.load((group, MessageQueue(topic, queue_broker, number)), client_id)
    return table


def _columns(queue: MessageQueue) -> tuple[str, str, int]:
    return queue.topic, queue.broker, queue.number
