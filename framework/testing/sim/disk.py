"""SimDisk: what one machine keeps: small files, and databases with their crashes.

A crash of a process leaves every database as of its last commit. Files are replaced whole and synced, as `ports.Files`
promises.
"""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Callable
from functools import partial
from typing import Any

from framework.ports import DiskUsage


class SimConnection(sqlite3.Connection):
    """A connection in memory that notices commits. Closing it is left to the disk: the data outlives the process."""

    has_room = True
    """Whether what was changed can be committed."""
    _changes_before = 0

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        if sql.startswith("BEGIN"):
            self._changes_before = self.total_changes
        elif sql.startswith("COMMIT") and not self.has_room and self.total_changes > self._changes_before:
            raise _full()
        return super().execute(sql, *parameters)

    def close(self) -> None:
        """A process closes its database, or dies; both leave the data."""

    def end(self) -> None:
        """With the run."""
        super().close()


def _full() -> sqlite3.OperationalError:
    """As SQLite says it."""
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorname, error.sqlite_errorcode = "SQLITE_FULL", sqlite3.SQLITE_FULL
    return error


class SimDisk:
    """The disk of one machine. Also fits `ports.Files`."""

    connection_class = SimConnection

    def __init__(self) -> None:
        self._files: dict[str, bytes] = {}
        self._locked: dict[str, None] = {}
        self._databases: dict[str, SimConnection] = {}
        self.used = DiskUsage(0, 1 << 40)
        """How full it is; set by whoever plays with it."""
        self._is_full = False
        self.on_replace: Callable[[str, bytes], None] | None = None
        """Told of each file that was written."""

    @property
    def is_full(self) -> bool:
        """Nothing more can be written, neither files nor commits of databases. What is there can be read."""
        return self._is_full

    @is_full.setter
    def is_full(self, value: bool) -> None:
        self._is_full = value
        for connection in self._databases.values():
            connection.has_room = not value

    # -- ports.Files

    def read(self, path: str) -> bytes | None:
        return self._files.get(path)

    def replace(self, path: str, content: bytes) -> None:
        if self._is_full:
            raise OSError(errno.ENOSPC, "No space left on device", path)
        self._files[path] = bytes(content)
        if self.on_replace is not None:
            self.on_replace(path, content)

    def paths(self) -> list[str]:
        """Of the files that are there."""
        return list(self._files)

    def usage(self, path: str) -> DiskUsage:
        return self.used

    def lock(self, path: str) -> Callable[[], None] | None:
        if path in self._locked:
            return None
        self._locked[path] = None
        return partial(self._locked.pop, path, None)

    # -- databases

    def open_database(self, name: str) -> sqlite3.Connection:
        """The database of that name, empty at first; what the process before had committed is there."""
        connection = self._databases.get(name)
        if connection is None:
            connection = sqlite3.connect(":memory:", isolation_level=None, factory=self.connection_class)
            connection.has_room = not self._is_full
            self._databases[name] = connection
        return connection

    def crash(self) -> int:
        """The process is gone: open transactions are undone. How many there were."""
        self._locked.clear()
        undone = 0
        for connection in self._databases.values():
            if connection.in_transaction:
                connection.rollback()
                undone += 1
        return undone

    def close(self) -> None:
        """The end of the run."""
        for connection in self._databases.values():
            connection.end()
        self._databases.clear()
