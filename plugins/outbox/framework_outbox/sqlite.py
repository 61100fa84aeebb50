"""The table in a file of SQLite. Its one writer at a time makes claims wait for each other."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import ClassVar

from framework_outbox.table import Table

BUSY_MS = 5_000  # a handler's transaction holds the file meanwhile


class SqliteTable(Table):
    """`database: shop.db`."""

    # julianday counts days since noon of a day long ago; this is the machine's clock, which all who share a file share.
    now_sql = "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"
    begin = "BEGIN IMMEDIATE"
    types: ClassVar = {
        "id": "INTEGER PRIMARY KEY AUTOINCREMENT", "text": "TEXT", "bytes": "BLOB", "number": "INTEGER",
    }  # fmt: skip

    def __init__(self, path: str, name: str) -> None:
        super().__init__(name)
        self._path = Path(path).expanduser()
        self._mode = "rw"

    def create(self) -> None:
        self._mode = "rwc"
        super().create()
        self._mode = "rw"

    def connect(self) -> sqlite3.Connection:
        where = f"{self._path.absolute().as_uri()}?mode={self._mode}"
        connection = sqlite3.connect(
            where, uri=True, timeout=BUSY_MS / 1000, isolation_level=None, check_same_thread=False
        )  # fmt: skip
        # With FULL what was marked as sent stays that through a power cut. How it keeps its journal is its owner's.
        connection.execute("PRAGMA synchronous = FULL")
        return connection

    def index(self, schema: str, name: str) -> str:
        return f"{schema}.{name}" if schema else name

    def indexed(self, plain: str) -> str:
        return plain

    def errors(self) -> tuple[type[Exception], ...]:
        return (sqlite3.Error, OSError)

    def __str__(self) -> str:
        return f"{self._path}"
