"""Stored messages, read: slices of a queue for pulls, single ones by place, offsets by time.

Every record is checked against its checksum and its place before anybody sees it. A damaged one is an error that names
the message; it is never skipped and never served.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator
from json import dumps
from struct import Struct
from typing import NamedTuple

from framework.broker.store import keys
from framework.broker.store.queues import Queue, Queues
from framework.broker.store.trouble import DAMAGE
from framework.broker.store.writer import STAMP_BYTES, stamp_of
from framework.errors import RecordDamaged, StoreError
from framework.wire.record import crc32

# Filtering looks at no more offsets than this a pull, as RocketMQ does (16,000 bytes of consume queue).
SCAN_MAX = 800
FOUND_MAX = 10_000  # by a key's hash; of those of them that are meant, a query answers 64
_CRC = 0xFFFF_FFFF
_QUEUE_OFFSET = Struct(">q").unpack_from
_QUEUE_OFFSET_AT = 20


def is_sound(record: object, checksum: object) -> bool:
    """Whether a record is what its row says; above the lower 32 bits stands the check of the tag."""
    return isinstance(record, bytes) and isinstance(checksum, int) and crc32(record) == checksum & _CRC


class Slice(NamedTuple):
    """What a read found: whole records in order, and the offset to go on from (past filtered messages too)."""

    records: list[bytes]
    next_offset: int


class Log:
    """Reads through the connection that sees only what is committed."""

    def __init__(self, reading: sqlite3.Connection, queues: Queues, *, tags_checked_from: int = 0) -> None:
        self._reading = reading
        self._queues = queues
        self._tags_checked_from = tags_checked_from

    def read(self, queue: Queue, start: int, *, count_max: int, bytes_max: int) -> Slice:
        """Messages from `start` on: at least one where there is one, whatever its size."""
        first = queue.base + start
        rows = self._select(
            "SELECT record, checksum FROM messages WHERE id >= ? AND id < ? ORDER BY id LIMIT ?",
            (first, queue.base + queue.end, count_max), queue, start,
        )  # fmt: skip
        records: list[bytes] = []
        offset = start
        room = bytes_max
        try:
            for record, checksum in rows:
                room -= len(record)
                if records and room < 0:
                    break
                # The offset inside is compared too: a flipped bit in the row's key would move a whole record.
                if crc32(record) != checksum & _CRC or _QUEUE_OFFSET(record, _QUEUE_OFFSET_AT)[0] != offset:
                    break
                records.append(record)
                offset += 1
        except DAMAGE as error:
            raise self._unreadable(queue, offset, error) from error
        except TypeError:
            pass  # a flipped bit made a column something else: as damaged as what its checksum contradicts
        finally:
            rows.close()
        if not records and start < queue.end:
            # What is sound before a damaged message is served; the next pull then begins with it.
            raise self._damaged(queue, start)
        return Slice(records, offset)

    def read_tagged(self, queue: Queue, start: int, tags: Collection[int], *, count_max: int, bytes_max: int) -> Slice:
        """The same for messages whose tag has one of the hashes; an empty slice may still have moved on."""
        end = min(queue.end, start + SCAN_MAX)
        rows = self._select(
            "SELECT id, record, checksum FROM messages WHERE id >= ? AND id < ?"
            " AND tag IN (SELECT value FROM json_each(?)) ORDER BY id LIMIT ?",
            (queue.base + start, queue.base + end, dumps(list(tags)), count_max), queue, start,
        )  # fmt: skip
        records: list[bytes] = []
        next_offset = end
        room = bytes_max
        try:
            for message, record, checksum in rows:
                offset = message - queue.base
                if not is_sound(record, checksum):
                    next_offset = offset
                    break
                room -= len(record)
                if records and room < 0:
                    next_offset = offset
                    break
                if _QUEUE_OFFSET(record, _QUEUE_OFFSET_AT)[0] != offset:
                    next_offset = offset
                    break
                records.append(record)
                if len(records) == count_max:
                    next_offset = offset + 1
                    break
        except DAMAGE as error:
            raise self._unreadable(queue, start, error) from error
        finally:
            rows.close()
        sound = self._sound_until(queue, start, next_offset)
        if sound < next_offset:
            records = [record for record in records if _QUEUE_OFFSET(record, _QUEUE_OFFSET_AT)[0] < sound]
        if sound == start < end:
            raise self._damaged(queue, start)
        return Slice(records, sound)

    def at_place(self, place: int) -> tuple[Queue, bytes] | None:
        """The message that stands at a commit-log offset, with its queue."""
        try:
            row = self._reading.execute(
                "SELECT id, record, checksum FROM messages WHERE place = ?", (place,)
            ).fetchone()
        except (*DAMAGE, OverflowError) as error:
            raise StoreError(f"commit-log offset {place}: {error}") from error
        if row is None:
            return None
        message, record, checksum = row
        queue = self._queues.of_message(message)
        # Uncommitted rows show where one connection both reads and writes.
        if queue is None or not queue.low <= message - queue.base < queue.end:
            return None
        if not is_sound(record, checksum):
            raise RecordDamaged(
                f"message {message - queue.base} of {_name(queue)} is damaged: not what its checksum says"
            )
        return queue, record

    def with_key_hash(self, hash_: int, since_ms: int, until_ms: int) -> Iterator[tuple[Queue, bytes] | None]:
        """Messages stored in that time that may have a key, the newest first; None after each stretch of the search.

        Damaged and deleted ones are left out.
        """
        left = FOUND_MAX
        try:
            for message in keys.find(self._reading, hash_, since_ms, until_ms):
                if message is None:
                    yield None
                    continue
                if left == 0:
                    return
                left -= 1
                queue = self._queues.of_message(message)
                if queue is None or not queue.low <= message - queue.base < queue.end:
                    continue
                row = self._reading.execute("SELECT record, checksum FROM messages WHERE id = ?", (message,)).fetchone()
                if row is not None and is_sound(*row):
                    yield queue, row[0]
        except DAMAGE as error:
            raise StoreError(f"the index of keys cannot be read: {error}") from error

    def first_stored_ms(self) -> int | None:
        """When the oldest message was stored."""
        row = self._reading.execute("SELECT stored_ms FROM messages ORDER BY place LIMIT 1").fetchone()
        return None if row is None else int(row[0])

    def place_of(self, queue: Queue, offset: int) -> int | None:
        """The commit-log offset of a message; None where it is not there."""
        row = self._select("SELECT place FROM messages WHERE id = ?", (queue.base + offset,), queue, offset).fetchone()
        return None if row is None else int(row[0])

    def stored_ms(self, queue: Queue, offset: int) -> int | None:
        """When the broker stored the message at an offset."""
        if not queue.low <= offset < queue.end:
            return None
        row = self._reading.execute(
            "SELECT stored_ms, substr(record, 1, ?) FROM messages WHERE id = ?", (STAMP_BYTES, queue.base + offset)
        ).fetchone()
        if row is None:
            return None
        stamp = stamp_of(row[1]) if isinstance(row[1], bytes) else None
        # Row and record both say it: a bit that flipped in either would send a search astray.
        if stamp is None or row[0] != stamp.stored_ms:
            raise self._damaged(queue, offset)
        return stamp.stored_ms

    def offset_at(self, queue: Queue, time_ms: int, *, upper: bool = False) -> int:
        """The first offset stored at or after a time (upper: the last one at or before it), as RocketMQ's search.

        Before the first message, upper is 0, also where the queue begins further up.
        """
        if queue.low >= queue.end:
            return queue.end if queue.end == queue.low else 0
        before = self._count_before(queue, time_ms + 1 if upper else time_ms)
        if not upper:
            return before
        return before - 1 if before > queue.low else 0

    def _count_before(self, queue: Queue, time_ms: int) -> int:
        """The first offset whose store time is not before `time_ms`: times never fall along a queue."""
        low, high = queue.low, queue.end
        while low < high:
            middle = (low + high) // 2
            stored = self.stored_ms(queue, middle)
            if stored is None:
                raise self._damaged(queue, middle)
            if stored < time_ms:
                low = middle + 1
            else:
                high = middle
        return low

    def _select(self, sql: str, values: tuple[object, ...], queue: Queue, offset: int) -> sqlite3.Cursor:
        try:
            return self._reading.execute(sql, values)
        except (*DAMAGE, OverflowError) as error:
            raise self._unreadable(queue, offset, error) from error

    def _sound_until(self, queue: Queue, start: int, end: int) -> int:
        """See that no message is missing among those a filter passed over; where the first is whose tag is damaged.

        Messages of an older store have no check of their tag.
        """
        rows = self._select(
            "SELECT count(*), min(CASE WHEN typeof(tag) = 'integer' AND"
            " (checksum >> 32 = ~tag OR checksum >> 32 = 0 AND place BETWEEN 0 AND ? - 1) THEN NULL ELSE id END)"
            " FROM messages WHERE id >= ? AND id < ?",
            (self._tags_checked_from, queue.base + start, queue.base + end), queue, start,
        )  # fmt: skip
        count, damaged = rows.fetchone()
        if damaged is not None:
            return int(damaged) - queue.base
        if count != end - start:
            raise RecordDamaged(f"messages {start} to {end - 1} of {_name(queue)}: {end - start - count} are missing")
        return end

    def _damaged(self, queue: Queue, offset: int) -> RecordDamaged:
        return RecordDamaged(
            f"message {offset} of {_name(queue)} is damaged: missing, moved, or not what its checksum says"
        )

    def _unreadable(self, queue: Queue, offset: int, error: Exception) -> StoreError:
        return StoreError(f"{_name(queue)} from offset {offset} cannot be read: {error}")


def _name(queue: Queue) -> str:
    return f"{queue.topic}@{queue.broker}:{queue.number}"
