"""Send-backs already done, on disk, so that one asked twice makes one copy. Statements only."""

from __future__ import annotations

import sqlite3


def forget(connection: sqlite3.Connection, broker: str, group: str) -> None:
    """A group begins anew: a message that it meets again may be sent back again."""
    connection.execute("DELETE FROM sent_back WHERE broker = ? AND consumer_group = ?", (broker, group))
