"""`once_store: sqlite`: a file on this machine remembers what was handled, through crashes and for all its processes.

A key is on the disk before its message is settled. Handlers that return together share a transaction, so that a disk
which needs 5 ms for one does not limit them to 200 messages per second. sqlite3 is imported when the file is opened.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from framework import private_files
from framework.errors import StoreError
from framework.hooks.markers import hookimpl
from framework.model.contracts import DedupMeans, DedupStore, RemembersKeys

if TYPE_CHECKING:
    import sqlite3

T = TypeVar("T")

BUSY_MS = 2_000  # other processes hold the file for one short transaction at a time
SWEEP_MS = 10_000  # how often what is over is removed

_TABLE = "CREATE TABLE IF NOT EXISTS handled (key TEXT PRIMARY KEY, until_ms INTEGER NOT NULL) WITHOUT ROWID"
_INDEX = "CREATE INDEX IF NOT EXISTS handled_until ON handled (until_ms)"
_RECORD = (
    "INSERT INTO handled VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET until_ms = max(until_ms, excluded.until_ms)"
)


class SqliteStore:
    name = "sqlite"

    def open(self, means: DedupMeans) -> RemembersKeys:
        return SqliteKeys(means)


class SqliteKeys:
    """One connection, opened when it is first needed; one thread at a time uses it."""

    def __init__(self, means: DedupMeans) -> None:
        self._means, self._path = means, Path(means.folder) / f"{means.group}.sqlite3"
        self._connection: sqlite3.Connection | None = None
        self._alone = threading.Lock()
        self._turn = asyncio.Lock()
        self._waiting: dict[str, int] = {}
        self._swept_ms = 0

    async def has(self, key: str) -> bool:
        now_ms = self._means.now_ms()

        def look(connection: sqlite3.Connection) -> bool:
            found = connection.execute("SELECT 1 FROM handled WHERE key = ? AND until_ms > ?", (_kept(key), now_ms))
            return found.fetchone() is not None

        return await self._means.in_thread(lambda: self._with(look))

    async def record(self, key: str, keep_ms: int) -> None:
        self._waiting[key] = self._means.now_ms() + keep_ms
        async with self._turn:
            if key not in self._waiting:
                return  # whoever went before has written it, too
            rows, self._waiting = self._waiting, {}
            now_ms = self._means.now_ms()
            is_written = False
            try:
                await self._means.in_thread(
                    lambda: self._with(lambda connection: self._write(connection, rows, now_ms))
                )
                is_written = True
            finally:
                if not is_written:  # each of the others tries for itself, and is told
                    del rows[key]
                    self._waiting = {**rows, **self._waiting}

    async def close(self) -> None:
        await self._means.in_thread(self._close)

    # On a thread

    def _with(self, job: Callable[[sqlite3.Connection], T]) -> T:
        import sqlite3

        with self._alone:
            try:
                if self._connection is None:
                    self._connection = self._opened()
                return job(self._connection)
            except (sqlite3.Error, OSError) as error:
                raise StoreError(f"{self._path}: {error}") from None

    def _opened(self) -> sqlite3.Connection:
        import sqlite3

        private_files.make_folder(self._path.parent)
        # Made here first: SQLite gives its log and index the file's own mode.
        os.close(private_files.open_file(self._path, os.O_RDWR | os.O_CREAT))
        connection = sqlite3.connect(self._path, timeout=BUSY_MS / 1000, isolation_level=None, check_same_thread=False)
        try:
            # With FULL a key is durable when its transaction ends, through a power cut, too.
            for statement in ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", _TABLE, _INDEX):
                connection.execute(statement)
        except BaseException:
            connection.close()
            raise
        return connection

    def _write(self, connection: sqlite3.Connection, rows: Mapping[str, int], now_ms: int) -> None:
        connection.execute("BEGIN IMMEDIATE")
        try:
            connection.executemany(_RECORD, [(_kept(key), until_ms) for key, until_ms in rows.items()])
            if now_ms - self._swept_ms >= SWEEP_MS:
                connection.execute("DELETE FROM handled WHERE until_ms <= ?", (now_ms,))
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        if now_ms - self._swept_ms >= SWEEP_MS:
            self._swept_ms = now_ms

    def _close(self) -> None:
        with self._alone:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def __repr__(self) -> str:
        return f"<SqliteKeys {self._path}>"


def _kept(key: str) -> str | bytes:
    """A producer's key need not be text that can be written: such a one is kept as its bytes, which no text equals."""
    try:
        key.encode()
    except UnicodeEncodeError:
        return key.encode("utf-8", "surrogatepass")
    return key


@hookimpl
def register_dedup_stores() -> list[DedupStore]:
    return [SqliteStore()]
