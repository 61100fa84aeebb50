"""Reading a damaged store page by page, past SQLite: each row is found by its record's magic number and believed only
where its checksum agrees.

It needs none of the pages that lead to a row: those of inner nodes, of other tables, of other rows. It writes nothing.
Removed rows leave their bytes in free pages; the table of queues, where it can be read, says which are gone.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from framework.broker.store.database import FILE_NAME
from framework.broker.store.queues import OFFSET_BITS, OFFSET_MAX
from framework.wire.stored import MAGIC_V1, MAGIC_V2

PAGE_BYTES = 4096  # SQLite's default, and what the store never changes
_LEAF = 0x0D  # a page of rows begins so
_MAGICS = tuple(magic.to_bytes(4, "big", signed=True) for magic in (MAGIC_V1, MAGIC_V2))
_RECORD_BYTES_MIN, _RECORD_BYTES_MAX = 72, 64 * 1024 * 1024
_HEAD_BYTES_MAX = 48
_WAL_HEAD_BYTES, _FRAME_HEAD_BYTES = 32, 24
_INTEGER_BYTES = (0, 1, 2, 3, 4, 6, 8, -1, 0, 0)  # by SQLite's serial types; 7 is a float, which no column of ours is
_COLUMNS = 6
# How much of a row's payload stands on its own page; the rest is a chain of others. (SQLite's file format, 1.6.)
_LOCAL_MAX = PAGE_BYTES - 35
_LOCAL_MIN = (PAGE_BYTES - 12) * 32 // 255 - 23


class Row(NamedTuple):
    """A message that was found: its queue's id and offset in one number, its place in the log, where it lies."""

    message: int
    place: int
    page: int
    at: int

    @property
    def queue(self) -> int:
        return self.message >> OFFSET_BITS

    @property
    def offset(self) -> int:
        return self.message & OFFSET_MAX


class Known(NamedTuple):
    """A queue as the table of queues has it."""

    broker: str
    topic: str
    number: int
    low: int


class Pages:
    """The pages of the file, newest version: those of the write-ahead log over those of the file."""

    def __init__(self, folder: Path) -> None:
        path = folder / FILE_NAME
        self._file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        self._log: int | None = None
        self._newer: dict[int, int] = {}
        log = path.with_name(f"{FILE_NAME}-wal")
        if log.exists():
            self._log = os.open(log, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            self._read_log(self._log)
        self.count = max(os.fstat(self._file).st_size // PAGE_BYTES, max(self._newer, default=0))

    @property
    def has_log(self) -> bool:
        return bool(self._newer)

    def page(self, number: int) -> bytes:
        """A page, from 1; short or empty where the file ends."""
        at = self._newer.get(number)
        if at is not None and self._log is not None:
            return os.pread(self._log, PAGE_BYTES, at)
        return os.pread(self._file, PAGE_BYTES, (number - 1) * PAGE_BYTES) if number > 0 else b""

    def close(self) -> None:
        os.close(self._file)
        if self._log is not None:
            os.close(self._log)

    def _read_log(self, log: int) -> None:
        """Frames of the log's present round. A damaged one is passed over; SQLite would end there."""
        salts = os.pread(log, _WAL_HEAD_BYTES, 0)[16:24]
        at, end = _WAL_HEAD_BYTES, os.fstat(log).st_size
        while at + _FRAME_HEAD_BYTES + PAGE_BYTES <= end:
            head = os.pread(log, _FRAME_HEAD_BYTES, at)
            if head[8:16] == salts:
                self._newer[int.from_bytes(head[:4], "big")] = at + _FRAME_HEAD_BYTES
            at += _FRAME_HEAD_BYTES + PAGE_BYTES


def rows(pages: Pages) -> Iterator[Row]:
    """Every row whose record is sound, page by page; one that was moved may come twice."""
    for number in range(1, pages.count + 1):
        page = pages.page(number)
        # One flipped bit in the page's own mark is forgiven; pages that continue a record begin with zeros.
        if len(page) == PAGE_BYTES and (page[0] ^ _LEAF).bit_count() <= 1:
            yield from _rows_of(pages, number, page)


def record(pages: Pages, row: Row) -> bytes:
    """The record of a row that was found."""
    found = _row_at(pages, row.page, pages.page(row.page), row.at)
    assert found is not None, "it was there"
    return found[1]


def known_queues(folder: Path) -> dict[int, Known] | None:
    """The table of queues as the file has it, read without touching it; None where it cannot be read."""
    try:
        connection = sqlite3.connect(f"{(folder / FILE_NAME).absolute().as_uri()}?mode=ro&immutable=1", uri=True)
        try:
            found = connection.execute("SELECT id, broker, topic, number, low FROM queues").fetchall()
        finally:
            connection.close()
        return {int(row[0]): Known(str(row[1]), str(row[2]), int(row[3]), int(row[4])) for row in found}
    except (sqlite3.Error, ValueError, TypeError):
        return None


def _rows_of(pages: Pages, number: int, page: bytes) -> Iterator[Row]:
    at = 0
    while True:
        hits = [hit for hit in (page.find(magic, at) for magic in _MAGICS) if hit >= 0]
        if not hits:
            return
        start = min(hits) - 4
        found = _row_at(pages, number, page, start) if start >= 0 else None
        if found is None:
            at = min(hits) + 1
            continue
        yield found[0]
        # What looks like a record inside a sound one is a producer's text.
        at = start + min(len(found[1]), found[2])


def _row_at(pages: Pages, number: int, page: bytes, at: int) -> tuple[Row, bytes, int] | None:
    """The row whose record begins at a byte of a page, the record, and how much of it stands there; None for none."""
    size = int.from_bytes(page[at : at + 4], "big")
    if not _RECORD_BYTES_MIN <= size <= _RECORD_BYTES_MAX:
        return None
    for head in range(at - 1, max(at - _HEAD_BYTES_MAX, 0), -1):
        columns = _columns(page, head, at, size)
        if columns is None:
            continue
        place, _, _, checksum = columns
        data = _payload(pages, page, head, at, size)
        if data is not None and crc32(data) == checksum & 0xFFFF_FFFF:
            message = _number_before(page, head)
            return Row(message, place, number, at), data, _local(at - head + size) - (at - head)
    return None


def _columns(page: bytes, head: int, at: int, size: int) -> list[int] | None:
    """The numbers in front of a record, were this the beginning of its row: place, stored_ms, tag, checksum."""
    end = head + page[head]
    if not head < end < at:
        return None
    types: list[int] = []
    position = head + 1
    while position < end and len(types) < _COLUMNS:
        value, position = _varint(page, position)
        types.append(value)
    if position != end or len(types) != _COLUMNS or types[0] != 0 or types[-1] != 2 * size + 12:
        return None
    values: list[int] = []
    for type_ in types[1:-1]:
        if type_ >= len(_INTEGER_BYTES) or _INTEGER_BYTES[type_] < 0:
            return None
        width = _INTEGER_BYTES[type_]
        values.append(int(type_ == 9) if width == 0 else int.from_bytes(page[end : end + width], "big", signed=True))
        end += width
    return values if end == at else None


def _payload(pages: Pages, page: bytes, head: int, at: int, size: int) -> bytes | None:
    total = at - head + size
    local = _local(total)
    if local == total:
        return page[at : at + size]
    parts, have = [page[at : head + local]], head + local - at
    following = int.from_bytes(page[head + local : head + local + 4], "big")
    while have < size:
        more = pages.page(following) if 0 < following <= pages.count else b""
        if len(more) < PAGE_BYTES:
            return None
        parts.append(more[4:])
        have += PAGE_BYTES - 4
        following = int.from_bytes(more[:4], "big")
    return b"".join(parts)[:size]


def _local(total: int) -> int:
    """How much of a payload stands on the row's own page."""
    if total <= _LOCAL_MAX:
        return total
    local = _LOCAL_MIN + (total - _LOCAL_MIN) % (PAGE_BYTES - 4)
    return local if local <= _LOCAL_MAX else _LOCAL_MIN


def _varint(page: bytes, at: int) -> tuple[int, int]:
    value = 0
    for i in range(8):
        if at + i >= len(page):
            return -1, at + i
        byte = page[at + i]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + i + 1
    return value << 8 | page[at + 8], at + 9


def _number_before(page: bytes, end: int) -> int:
    """The row's number, which ends where its payload begins."""
    start = end - 1
    while start > 0 and end - start < 9 and page[start - 1] >= 0x80:
        start -= 1
    return _varint(page, start)[0]
