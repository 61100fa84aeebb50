"""Progress: what members of a group have finished above a gap, a record a queue, and the epoch that it stands under.

An epoch is given to each acquisition of a queue, higher than any that was given before, also to groups and in topics
that are gone. It is a time in milliseconds where that is higher still, so that epochs go on rising over a store that
was thrown away. What records say is the members' affair; one that is damaged is as good as none: what it covered is
delivered again.
"""

from __future__ import annotations

import sqlite3
import zlib
from typing import NamedTuple, TypeAlias

import structlog

from framework.broker.store.columns import PROGRESS
from framework.broker.store.sent_back import GroupPlace
from framework.broker.store.tables import NamedValues, SavedTable

log = structlog.get_logger()


class StoredProgress(NamedTuple):
    """One queue's record."""

    epoch: int
    content: bytes


_HIGHEST = "epoch"  # the last one that was given
ProgressTable: TypeAlias = SavedTable[GroupPlace, StoredProgress]


class ProgressRecords:
    """All records of one logical broker. Read from memory; written with the next group of writes."""

    def __init__(self, connection: sqlite3.Connection, broker: str, values: NamedValues) -> None:
        self._values, self._scope = values, f"progress:{broker}"
        self._highest = int(values.get(self._scope, _HIGHEST) or -1)
        self.table: ProgressTable = SavedTable(
            PROGRESS, (broker,), to_key=tuple, to_row=lambda kept: (kept.epoch, _checksum(kept), kept.content)
        )
        for group, topic, number, epoch, checksum, content in self.table.rows(connection):
            kept = StoredProgress(epoch, content)
            if _checksum(kept) == checksum:
                self.table.load(GroupPlace(group, topic, number), kept)
            else:
                log.error("progress record damaged", group=group, topic=topic, queue=number, reason="it is not used")

    def get(self, key: GroupPlace) -> StoredProgress | None:
        return self.table.get(key)

    def take(self, key: GroupPlace, content: bytes, now_ms: int) -> int:
        """The first record of an acquisition; its epoch."""
        epoch = self._highest = max(self._highest + 1, now_ms)
        self._values.put(self._scope, _HIGHEST, str(epoch))
        self.table.put(key, StoredProgress(epoch, content))
        return epoch

    def put(self, key: GroupPlace, epoch: int, content: bytes) -> None:
        """A later record, under an epoch that is not outdated."""
        self.table.put(key, StoredProgress(epoch, content))

    def is_outdated(self, key: GroupPlace, epoch: int) -> bool:
        """Whether a higher epoch was given out since this one."""
        kept = self.table.get(key)
        return kept is not None and epoch < kept.epoch

    def drop_where(self, *, group: str | None = None, topic: str | None = None) -> None:
        """Forget what a group finished, or what was finished of a topic."""
        self.table.drop_where(lambda key: key.group == group or key.topic == topic)


def _checksum(kept: StoredProgress) -> int:
    return zlib.crc32(b"%d " % kept.epoch + kept.content)
