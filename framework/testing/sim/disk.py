"""SimDisk: what one machine keeps: small files, and databases with their crashes and power cuts.

A crash of a process leaves every database as of its last commit, a power cut as of the last *synced* commit:
with `synchronous=FULL` that is the same one, with less it is what the last checkpoint had synced. Files are replaced
whole and synced, as `ports.Files` promises, so a cut finds the old one or the new one. How SQLite itself survives torn
pages is not played here; a recording file system under the real one does that, in the tests of the store.
"""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Callable
from functools import partial
from typing import Any

from framework.ports import DiskUsage

SYNCHRONOUS_FULL = 2
CHECKPOINT_COMMITS = 200
"""With less than FULL only a checkpoint syncs; here one comes each so many commits."""


class SimConnection(sqlite3.Connection):
    """A connection in memory that notices commits. Closing it is left to the disk: the data outlives the process."""

    has_room = True
    """Whether what was changed can be committed."""
    _changes_before = 0
    commits_unsynced = 0
    synced: sqlite3.Connection | None = None
    """A copy as of the last sync, kept only while commits are not synced one by one."""

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        # Before the transaction: a copy taken inside one would wait for its own end.
        if sql.startswith("BEGIN") and self.synced is None and not self._syncs_commits():
            self.synced = sqlite3.connect(":memory:")
            self.backup(self.synced)
        if sql.startswith("BEGIN"):
            self._changes_before = self.total_changes
        elif sql.startswith("COMMIT") and not self.has_room and self.total_changes > self._changes_before:
            raise _full()
        cursor = super().execute(sql, *parameters)
        if sql.startswith("COMMIT") and self.synced is not None:
            self.commits_unsynced += 1
            if self.commits_unsynced >= CHECKPOINT_COMMITS or self._syncs_commits():
                self.forget_copy()
        return cursor

    def _syncs_commits(self) -> bool:
        return int(super().execute("PRAGMA synchronous").fetchone()[0]) >= SYNCHRONOUS_FULL

    def forget_copy(self) -> None:
        if self.synced is not None:
            self.synced.close()
            self.synced = None
        self.commits_unsynced = 0

    def close(self) -> None:
        """A process closes its database, or dies; both leave the data. `SimDisk.close` is the real end."""


def _full() -> sqlite3.OperationalError:
    """As SQLite says it."""
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorname, error.sqlite_errorcode = "SQLITE_FULL", sqlite3.SQLITE_FULL
    return error


class SimDisk:
    """The disk of one machine. Also fits `ports.Files`."""

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
            connection = sqlite3.connect(":memory:", isolation_level=None, factory=SimConnection)
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

    def power_cut(self) -> int:
        """The machine is gone: commits that no sync had followed are undone too. How many, with open transactions."""
        undone = self.crash()
        for name, connection in list(self._databases.items()):
            if connection.synced is None:
                continue
            undone += connection.commits_unsynced
            restored = sqlite3.connect(":memory:", isolation_level=None, factory=SimConnection)
            restored.has_room = not self._is_full
            connection.synced.backup(restored)
            connection.forget_copy()
            sqlite3.Connection.close(connection)
            self._databases[name] = restored
        return undone

    def close(self) -> None:
        """The end of the run."""
        for connection in self._databases.values():
            connection.forget_copy()
            sqlite3.Connection.close(connection)
        self._databases.clear()
