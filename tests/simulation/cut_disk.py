"""CutDisk: a machine's disk whose power can be cut, which leaves every database as of its last *synced* commit.

With `synchronous=FULL` that is the last one, with less it is what the last checkpoint had synced. How SQLite itself
survives torn pages is not played here; a recording file system under the real one does that, in the tests of the store.
"""

from __future__ import annotations

import sqlite3
from typing import Any

from framework.testing.sim.disk import SimConnection, SimDisk

SYNCHRONOUS_FULL = 2
CHECKPOINT_COMMITS = 200
"""With less than FULL only a checkpoint syncs; here one comes each so many commits."""


class CutConnection(SimConnection):
    """One that knows which of its commits are synced."""

    commits_unsynced = 0
    synced: sqlite3.Connection | None = None
    """A copy as of the last sync, kept only while commits are not synced one by one."""

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        # Before the transaction: a copy taken inside one would wait for its own end.
        if sql.startswith("BEGIN") and self.synced is None and not self._syncs_commits():
            self.synced = sqlite3.connect(":memory:")
            self.backup(self.synced)
        cursor = super().execute(sql, *parameters)
        if sql.startswith("COMMIT") and self.synced is not None:
            self.commits_unsynced += 1
            if self.commits_unsynced >= CHECKPOINT_COMMITS or self._syncs_commits():
                self._forget_copy()
        return cursor

    def _syncs_commits(self) -> bool:
        return int(super().execute("PRAGMA synchronous").fetchone()[0]) >= SYNCHRONOUS_FULL

    def _forget_copy(self) -> None:
        if self.synced is not None:
            self.synced.close()
            self.synced = None
        self.commits_unsynced = 0

    def end(self) -> None:
        self._forget_copy()
        super().end()


class CutDisk(SimDisk):
    connection_class = CutConnection

    def power_cut(self) -> int:
        """The machine is gone: commits that no sync had followed are undone too. How many, with open transactions."""
        undone = self.crash()
        for name, connection in list(self._databases.items()):
            assert isinstance(connection, CutConnection)
            if connection.synced is None:
                continue
            undone += connection.commits_unsynced
            del self._databases[name]
            connection.synced.backup(self.open_database(name))
            connection.end()
        return undone
