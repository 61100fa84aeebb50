"""Rows of a reader as an Arrow record batch, in the shape that Spark asked for; other columns are not built."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from framework.model.queue import MessageQueue
from framework.reading import Columns
from framework_spark.pairs import Pairs, pairs_of, upto

ERROR = "\x01error"  # no property has such a name


class Rows:
    """One batch on its way to Arrow, from lists. `packed.py` has the quicker kind."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns

    def __len__(self) -> int:
        return len(self._columns)

    @property
    def queue(self) -> MessageQueue:
        return self._columns.queue

    def batch(self, schema: pa.Schema) -> pa.RecordBatch:
        arrays = [self._column(field) for field in schema]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _column(self, field: pa.Field) -> pa.Array:
        build = _BUILDERS.get(field.name)
        # A column that is none of ours is a property's.
        column = self.text_of(field.name, field.type) if build is None else build(self, field.type)
        unread = self._columns.unread
        if not unread or field.name in _ALWAYS_KNOWN:
            return column
        return column.take(pa.array([None if row in unread else row for row in range(len(self))], pa.int64()))

    # Fields of records

    def offsets(self, kind: pa.DataType) -> pa.Array:
        return pa.array(self._columns.offsets, kind)

    def bodies(self, kind: pa.DataType) -> pa.Array:
        return pa.array(self._columns.bodies, kind)

    def stored(self, kind: pa.DataType) -> pa.Array:
        return pc.multiply(pa.array(self._columns.stored_ms, pa.int64()), 1000).view(kind)

    def born(self, kind: pa.DataType) -> pa.Array:
        return pc.multiply(pa.array(self._columns.born_ms, pa.int64()), 1000).view(kind)

    def reconsumed(self, kind: pa.DataType) -> pa.Array:
        return pa.array(self._columns.reconsume_times, kind)

    def errors(self, kind: pa.DataType) -> pa.Array:
        found = self._columns.errors
        return pa.array([found.get(row) for row in range(len(self))], kind) if found else pa.nulls(len(self), kind)

    def offset_id(self, row: int) -> str | None:
        """The offset message id, of a row without a unique key."""
        return self._columns.offset_ids.get(row)

    @cached_property
    def _pairs(self) -> Pairs:
        return pairs_of(pa.array(self._columns.properties, pa.binary()))

    # The same for all rows, or found in properties

    def constant(self, value: Any, kind: pa.DataType) -> pa.Array:
        return pa.repeat(pa.scalar(value, kind), len(self))

    @cached_property
    def _rows_of_pairs(self) -> pa.Array:
        pairs = self._pairs
        return pc.list_parent_indices(pa.ListArray.from_arrays(pairs.starts, pairs.names))

    @cached_property
    def _map(self) -> pa.MapArray:
        return pa.MapArray.from_arrays(*self._pairs[:3])

    def map(self, kind: pa.DataType) -> pa.Array:
        return pa.MapArray.from_arrays(*self._pairs[:3], type=kind)

    def text_of(self, name: str, kind: pa.DataType) -> pa.Array:
        _, names, values, order = self._pairs
        if order:
            if name not in order:
                return pa.nulls(len(self), kind)
            return values.take(upto(len(self), len(order), order.index(name))).cast(kind)
        pairs = pc.indices_nonzero(pc.equal(names, name))
        if not len(pairs):
            return pa.nulls(len(self), kind)
        owners = self._rows_of_pairs.take(pairs)
        if owners.equals(upto(len(self), 1)):  # each row has it, once
            return values.take(pairs).cast(kind)
        if pc.count_distinct(owners).as_py() < len(owners):
            return pc.map_lookup(self._map, pa.scalar(name), "last").cast(kind)
        places = pc.index_in(upto(len(self), 1), value_set=owners)
        return values.take(pairs).take(places).cast(kind)

    def message_id(self, kind: pa.DataType) -> pa.Array:
        found = self.text_of("UNIQ_KEY", kind)
        if not found.null_count:
            return found
        ids = {row: self.offset_id(row) for row in pc.indices_nonzero(pc.is_null(found)).to_pylist()}
        return pc.coalesce(found, pa.array([ids.get(row) for row in range(len(self))], kind))


_BUILDERS: dict[str, Callable[[Rows, pa.DataType], pa.Array]] = {
    "topic": lambda rows, kind: rows.constant(rows.queue.topic, kind),
    "broker": lambda rows, kind: rows.constant(rows.queue.broker, kind),
    "queueId": lambda rows, kind: rows.constant(rows.queue.number, kind),
    "offset": lambda rows, kind: rows.offsets(kind),
    "key": lambda rows, kind: rows.text_of("KEYS", kind),
    "tag": lambda rows, kind: rows.text_of("TAGS", kind),
    "body": lambda rows, kind: rows.bodies(kind),
    "storeTime": lambda rows, kind: rows.stored(kind),
    "bornTime": lambda rows, kind: rows.born(kind),
    "msgId": lambda rows, kind: rows.message_id(kind),
    "reconsumeTimes": lambda rows, kind: rows.reconsumed(kind),
    "properties": lambda rows, kind: rows.map(kind),
    ERROR: lambda rows, kind: rows.errors(kind),
}
_ALWAYS_KNOWN = frozenset({"topic", "broker", "queueId", "offset", ERROR})
