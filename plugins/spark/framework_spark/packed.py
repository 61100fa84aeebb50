"""Packed: turns pulled bytes into Arrow columns, whole fields at a time and without an object per message.

A pull result is only walked through, from record to record. When a batch is full, each field of all records is read at
once: a view of the bytes in which every byte begins a number, and the places where records begin. Bodies and properties
are ranges, which Arrow copies out. That works for the common record, as in `reading/columns.py`. A batch with any other
record, or with a damaged one, is read record by record, which also names the error.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from struct import Struct
from struct import error as StructError  # noqa: N812  # beside the module's other names

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from framework.errors import ProtocolError
from framework.model.queue import MessageQueue
from framework.reading import Columns
from framework.reading.columns import ANYWHERE, BODY_AT, MAGIC, SIZE_MIN, SLOW_PATH, crc32, offset_message_id
from framework_spark.pairs import Numbers, Pairs, pairs_of, ranges
from framework_spark.rows import Rows

_SIZE = Struct(">i").unpack_from
_OFFSET = Struct(">q").unpack_from
_OFFSET_AT = 20


@dataclass(slots=True)
class _Asked:
    """How the rows are wanted; the same for all of one reading."""

    end: int
    with_bodies: bool
    tags: frozenset[str]
    fail_on_loss: bool
    keep_damaged: bool = False

    @property
    def is_strict(self) -> bool:
        return self.fail_on_loss and not self.keep_damaged

    def into(self, columns: Columns, data: bytes, span: tuple[int, int], offset_delta: int = 0) -> None:
        columns.add(
            data,
            self.end,
            offset_delta=offset_delta,
            with_bodies=self.with_bodies,
            tags=self.tags,
            fail_on_loss=self.fail_on_loss,
            keep_damaged=self.keep_damaged,
            span=span,
        )


@dataclass(slots=True)
class _Run:
    """Pulls one after the other whose records were not looked into yet."""

    pulls: list[bytes] = field(default_factory=list)
    places: list[Numbers] = field(default_factory=list)
    """Of each pull, where its records begin, in all pulls joined."""
    size: int = 0
    span: tuple[int, int] = ANYWHERE
    """From where to where its offsets go."""


class Packed(Columns):
    """In place of `Columns`, for `Reader.read(columns=Packed)`. Its rows are had by `batches` alone."""

    __slots__ = ("_asked", "_count", "_last", "_parts")

    def __init__(self, queue: MessageQueue) -> None:
        super().__init__(queue)
        self._parts: list[_Run | Columns] = []
        """In the order of the offsets; lists where the general way was gone at once."""
        self._count = 0
        self._last: tuple[bytes, int] = (b"", 0)
        """The newest pull, and how many rows it was counted for."""
        self._asked = _Asked(0, with_bodies=True, tags=frozenset(), fail_on_loss=True)

    def __len__(self) -> int:
        return self._count

    def add(
        self,
        data: bytes,
        end: int,
        *,
        offset_delta: int = 0,
        with_bodies: bool = True,
        tags: frozenset[str] = frozenset(),
        fail_on_loss: bool = True,
        keep_damaged: bool = False,
        span: tuple[int, int] = ANYWHERE,
    ) -> None:
        self._asked = _Asked(end, with_bodies, tags, fail_on_loss, keep_damaged)
        self.broken_at = None
        self.size += len(data)
        if not data:  # nothing was wanted up to where it goes on
            self._last = (data, 0)
            return
        run = self._parts[-1] if self._parts else None
        if not isinstance(run, _Run):
            run = _Run(span=span)
        places = None if offset_delta else _places(data)
        # Offsets rise, so the last record says for all that they are wanted.
        if places is None or _OFFSET(data, int(places[-1]) + _OFFSET_AT)[0] >= end:
            self._last = (data, self._loosely(data, span, offset_delta))
            return
        if not run.pulls:
            self._parts.append(run)
        run.places.append(places + run.size)
        run.pulls.append(data)
        run.size += len(data)
        run.span = (run.span[0], span[1])
        self._last = (data, len(places))
        self._count += len(places)

    def _loosely(self, data: bytes, span: tuple[int, int], offset_delta: int = 0) -> int:
        columns = self._parts[-1] if self._parts else None
        if not isinstance(columns, Columns):
            columns = self._general()
            self._parts.append(columns)
        before = len(columns)
        self._asked.into(columns, data, span, offset_delta)
        self.broken_at = columns.broken_at
        self._count += len(columns) - before
        return len(columns) - before

    def _general(self) -> Columns:
        columns = Columns(self.queue)
        columns.passed_over = self.passed_over
        return columns

    def gap(self, begin: int, end: int, since: int = 0) -> tuple[int, int] | None:
        """Of the newest pull, whose number of rows is not that of its offsets: now it is looked into."""
        data, rows = self._last
        if not rows:
            return (begin, end) if begin < end else None
        run = self._parts[-1] if self._parts else None
        if isinstance(run, _Run) and run.pulls and run.pulls[-1] is data:
            run.pulls.pop()
            run.places.pop()
            run.size -= len(data)
            self._count -= rows
            if not run.pulls:
                self._parts.pop()
            rows = self._loosely(data, (begin, end))
            if self._asked.keep_damaged:
                self.mend(begin, end)
        columns = self._parts[-1]
        assert isinstance(columns, Columns), "the newest pull's rows are the last ones"
        return columns.gap(begin, end, len(columns) - rows)

    def misplaced(self, begin: int, end: int, since: int = 0) -> int | None:
        """Of the newest pull, if it was looked into; `batches` looks at the others, all at once."""
        columns = self._newest()
        return None if columns is None else columns.misplaced(begin, end, len(columns) - self._last[1])

    def mend(self, begin: int, end: int, since: int = 0) -> None:
        columns = self._newest()
        if columns is not None:
            columns.mend(begin, end, len(columns) - self._last[1])

    def _newest(self) -> Columns | None:
        part = self._parts[-1] if self._parts and self._last[1] else None
        return part if isinstance(part, Columns) else None

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """One, but for rows of different ways. ProtocolError names what is damaged."""
        for part in self._parts:
            rows = Rows(part) if isinstance(part, Columns) else self._rows(part)
            if len(rows):
                yield rows.batch(schema)

    def _rows(self, run: _Run) -> Rows:
        asked = self._asked
        rows = PackedRows(self.queue, b"".join(run.pulls), np.concatenate(run.places), asked)
        strange = rows.misplaced(run.span[0])
        if strange is not None and asked.is_strict:
            raise ProtocolError(f"{self.queue}: a record says offset {strange}, which cannot be at its place")
        if strange is None and rows.is_common:
            return rows if not asked.tags else rows.tagged(asked.tags)
        columns = self._general()
        try:
            for data in run.pulls if asked.is_strict else rows.records():
                asked.into(columns, data, run.span)
        except ProtocolError as error:
            raise ProtocolError(error.reason, peer=self.queue.broker) from error
        if asked.keep_damaged:
            columns.mend(*run.span)
        return Rows(columns)


def _places(data: bytes) -> Numbers | None:
    """Where records begin; None where their sizes do not fill the bytes, which the general way then complains of."""
    stop = len(data)
    try:
        size = _SIZE(data, 0)[0]
        if size >= SIZE_MIN and not stop % size:
            sizes: Numbers = np.ndarray((stop // size,), ">i4", data, 0, (size,))
            if (sizes == size).all():  # as the messages of one producer often are
                return np.arange(0, stop, size, dtype=np.int64)
        places: list[int] = []
        put, unpack, at = places.append, _SIZE, 0
        while at < stop:
            put(at)
            size = unpack(data, at)[0]
            if size < SIZE_MIN:
                return None
            at += size
    except StructError:
        return None
    return np.array(places, np.int64) if at == stop else None


class PackedRows(Rows):
    """Rows that are still the bytes of their records."""

    def __init__(self, queue: MessageQueue, data: bytes, places: Numbers, asked: _Asked) -> None:
        super().__init__(Columns(queue))
        self._data, self._asked = data, asked
        self._at = places

    def __len__(self) -> int:
        return len(self._at)

    def _field(self, offset: int, kind: str, at: Numbers | None = None) -> Numbers:
        """Of each record the number that begins so many bytes behind its place."""
        count = len(self._data) - offset - np.dtype(kind).itemsize + 1
        view: Numbers = np.ndarray((count,), kind, self._data, offset, (1,))
        return view[self._at if at is None else at]

    def records(self) -> Iterator[bytes]:
        """One by one: their sizes fill the bytes, so a damaged one is no reason to lose those behind it."""
        for begin, end in pairwise([*self._at.tolist(), len(self._data)]):
            yield self._data[begin:end]

    def misplaced(self, begin: int) -> int | None:
        """An offset that is not below the one behind it, or none of the range: no broker says that, so bytes are
        damaged.
        """
        offsets = self._field(_OFFSET_AT, ">i8").astype(np.int64)
        if offsets[0] >= begin and offsets[-1] < self._asked.end and (offsets[:-1] < offsets[1:]).all():
            return None
        ends = np.append(np.minimum.accumulate(offsets[::-1])[::-1][1:], self._asked.end)
        wrong = np.flatnonzero((offsets >= ends) | (offsets < begin))
        return int(offsets[wrong[0]])

    @cached_property
    def is_common(self) -> bool:
        """Whether all records are as these columns read them, whole, and their bodies what their checksums say."""
        size, body_size = self._field(0, ">i4").astype(np.int64), self._field(BODY_AT - 4, ">i4").astype(np.int64)
        if (
            (self._field(4, ">i4") != MAGIC).any()
            or (self._field(36, ">i4") & SLOW_PATH).any()
            or (body_size < 0).any()
            or (size < SIZE_MIN + body_size).any()
        ):
            return False
        body_end = self._body_end = self._at + BODY_AT + body_size
        topic_size = self._field(0, "u1", body_end).astype(np.int64)
        texts_at = self._texts_at = body_end + topic_size + 3
        end = self._at + size
        if (texts_at > end).any():
            return False
        texts_end = self._texts_end = texts_at + self._field(0, ">u2", texts_at - 2)
        if (texts_end > end).any():
            return False
        return not self._asked.with_bodies or self._is_sound()

    def _is_sound(self) -> bool:
        bodies = self._bodies.to_numpy(zero_copy_only=False).tolist()  # the cheapest way to an object each
        found = np.fromiter(map(crc32, bodies), np.uint32, len(bodies)) & 0x7FFF_FFFF
        return bool((found == self._field(8, ">i4")).all())

    def tagged(self, tags: frozenset[str]) -> Rows:
        """Those that have one of the tags: brokers compare hash codes."""
        wanted = pc.is_in(self.text_of("TAGS", pa.string()), value_set=pa.array(sorted(tags), pa.string()))
        places = self._at[np.asarray(pc.indices_nonzero(wanted))]
        if len(places) == len(self):
            return self
        rows = PackedRows(self.queue, self._data, places, self._asked)
        assert rows.is_common, "all of them were"
        return rows

    # Columns

    def offsets(self, kind: pa.DataType) -> pa.Array:
        return pa.array(self._field(_OFFSET_AT, ">i8").astype(np.int64), kind)

    def bodies(self, kind: pa.DataType) -> pa.Array:
        if not self._asked.with_bodies:
            return pa.nulls(len(self), kind)
        return self._bodies.cast(kind)

    @cached_property
    def _bodies(self) -> pa.BinaryArray:
        return ranges(self._data, self._at + BODY_AT, self._body_end, pa.binary())

    def stored(self, kind: pa.DataType) -> pa.Array:
        return pa.array(self._field(56, ">i8").astype(np.int64) * 1000).view(kind)

    def born(self, kind: pa.DataType) -> pa.Array:
        return pa.array(self._field(40, ">i8").astype(np.int64) * 1000).view(kind)

    def reconsumed(self, kind: pa.DataType) -> pa.Array:
        return pa.array(self._field(72, ">i4").astype(np.int32), kind)

    @cached_property
    def _pairs(self) -> Pairs:
        return pairs_of(ranges(self._data, self._texts_at, self._texts_end, pa.binary()))

    def offset_id(self, row: int) -> str | None:
        return offset_message_id(self._data, int(self._at[row]), self.queue)
