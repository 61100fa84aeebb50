"""The store as a whole: one database, its queues, its log and its writer."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

import structlog

from framework.broker.store import ends
from framework.broker.store.database import Database
from framework.broker.store.dropped import Sweep
from framework.broker.store.log import Log
from framework.broker.store.queues import Queues
from framework.broker.store.tables import NamedValues
from framework.broker.store.trouble import RESTORE, explained
from framework.broker.store.writer import Writer
from framework.errors import StoreError
from framework.ports import Clock, DiskUsage, Workers

log = structlog.get_logger()


class Store:
    """Everything that survives a crash. `soon` runs a callback in the event loop's next turn."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        workers: Workers,
        soon: Callable[[Callable[[], None]], Any],
        *,
        disk: Callable[[str], DiskUsage],
    ) -> None:
        self.database = database
        self._disk = disk
        try:
            self.queues = Queues(database.writing)
            for lack in ends.settle(database.writing, self.queues):
                log.error(
                    "messages missing", place=database.place, queue=repr(lack.queue), offset=lack.offset,
                    count=lack.missing, remedy=RESTORE,
                )  # fmt: skip
            self.values = NamedValues(database.writing)
            checked_from = int(self.values.get("store", "tags_checked_from") or 0)
            self.log = Log(database.reading, self.queues, tags_checked_from=checked_from)
            self.writer = Writer(database, self.queues, clock, workers, soon)
            self.writer.attach(self.values.table)
            self.writer.attach(ends.Ends(database.writing, self.queues))
            self.sweep = Sweep(self.writer, database.reading)
        except sqlite3.Error as error:
            database.close()
            raise StoreError(f"{database.place}: cannot be read ({explained(error)})") from error
        except (TypeError, ValueError) as error:  # a flipped bit made a column something else
            database.close()
            raise StoreError(f"{database.place}: damaged ({error}); {RESTORE}") from error

    def disk_ratio(self) -> float:
        """How full the disk is that the store lies on; 0 for one in memory.

        Pages of deleted messages are counted as free: the file keeps them, and the next messages go there.
        """
        if self.database.commits_inline:
            return 0.0
        try:
            used, total = self._disk(self.database.place)
            (pages,) = self.database.reading.execute("PRAGMA freelist_count").fetchone()
            (page_bytes,) = self.database.reading.execute("PRAGMA page_size").fetchone()
        except (OSError, sqlite3.Error):
            return 0.0
        return min(max(used - pages * page_bytes, 0) / total, 1.0) if total else 0.0

    def disk_bytes(self) -> tuple[int, int]:
        """How large the disk is that the store lies on, and how much of it is free; 0 for one in memory."""
        if self.database.commits_inline:
            return 0, 0
        try:
            used, total = self._disk(self.database.place)
        except OSError:
            return 0, 0
        return total, total - used

    def close(self) -> None:
        """After the last commit. What was not committed is gone."""
        self.writer.kill()
        self.database.close()

    def abandon(self) -> None:
        """End as a crash would: connections stay as they are, for the simulation's disk."""
        self.writer.kill()
        self.database.unlock()
