"""Removing the messages of deleted topics, a little with each write, until nothing of them is left.

A step rides with the next group of writes and asks for another one; so neither writers nor readers wait for it. What a
step does is known elsewhere.
"""

from __future__ import annotations

import sqlite3

import structlog

from framework.broker.store import dropped
from framework.broker.store.writer import Transaction, Writer
from framework.errors import FrameworkError

log = structlog.get_logger()


class Sweep:
    """One a store."""

    def __init__(self, writer: Writer, reading: sqlite3.Connection) -> None:
        self._writer = writer
        self._reading = reading
        self._is_running = False

    def resume(self) -> None:
        """Go on with what an earlier process left."""
        if dropped.is_any_left(self._reading):
            self.start()

    def start(self) -> None:
        """A queue was dropped."""
        if not self._is_running:
            self._is_running = True
            self._writer.submit(_step, self._stepped)

    def _stepped(self, is_more: bool, error: FrameworkError | None) -> None:
        self._is_running = False
        if error is not None:
            log.warning("deleted messages not removed", reason=str(error))
        elif is_more:
            self.start()


def _step(transaction: Transaction) -> bool:
    return dropped.clean(transaction.connection)
