"""The store as a whole: one database, its queues, its log and its writer."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

from framework.broker.store.database import Database
from framework.broker.store.log import Log
from framework.broker.store.queues import Queues
from framework.broker.store.writer import Writer
from framework.errors import StoreError
from framework.ports import Clock, Workers


class Store:
    """Everything that survives a crash. `soon` runs a callback in the event loop's next turn."""

    def __init__(
        self, database: Database, clock: Clock, workers: Workers, soon: Callable[[Callable[[], None]], Any]
    ) -> None:
        self.database = database
        try:
            self.queues = Queues(database.writing)
            self.log = Log(database.reading, self.queues)
            self.writer = Writer(database, self.queues, clock, workers, soon)
        except sqlite3.Error as error:
            database.close()
            raise StoreError(f"{database.place}: damaged ({error}); restore it from a copy") from error

    def close(self) -> None:
        """After the last commit. What was not committed is gone."""
        self.writer.kill()
        self.database.close()

    def abandon(self) -> None:
        """Let go as a crash would: connections are left as they are, for whoever plays the disk."""
        self.writer.kill()
        self.database.unlock()
