r"""Columns of a reader as an Arrow record batch in the shape that Spark asked for; what is not asked for is not built.

Properties are the dearest column. They are cut for a whole batch at once, by Arrow and without an object a text:
brokers store `name \x01 value \x02`, repeated, so all rows joined and split at both separators are names and values in
turn. Rows of another shape (an empty name, a value with a separator in it) send the batch the slow way. Where all rows
name the same properties in the same order, as those of one producer mostly do, each name is a column found by counting.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, lru_cache
from itertools import accumulate, repeat
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from framework.reading import Columns, decode_properties

_NAME_END, _PAIR_END = b"\x01", b"\x02"
_TEXT = bytes(byte for byte in range(256) if byte not in {1, 2})


class _Pairs(NamedTuple):
    """The properties of a batch, those of all rows in one line."""

    starts: pa.Array
    names: pa.Array
    values: pa.Array
    order: tuple[str, ...] = ()
    """The names that every row has, in this order and no other; empty where rows differ."""


class Rows:
    """One batch on its way to Arrow."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns

    def batch(self, schema: pa.Schema) -> pa.RecordBatch:
        arrays = [_BUILDERS[field.name](self, field.type) for field in schema]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def constant(self, value: Any, kind: pa.DataType) -> pa.Array:
        return pa.repeat(pa.scalar(value, kind), len(self.columns))

    def time(self, values_ms: list[int], kind: pa.DataType) -> pa.Array:
        return pc.multiply(pa.array(values_ms, pa.int64()), 1000).view(kind)

    @cached_property
    def _pairs(self) -> _Pairs:
        rows = self.columns.properties
        if rows and rows[0].endswith(_PAIR_END):
            joined = b"".join(rows)
        else:
            joined = _PAIR_END.join(rows) + _PAIR_END
        marks = joined.translate(None, _TEXT)
        count = len(marks) // 2
        if marks == b"\x01\x02" * count:  # so all rows end, or none ends, with a separator, and none is empty
            try:
                text = pa.array([joined.replace(_PAIR_END, _NAME_END)], pa.string())
            except pa.ArrowInvalid:
                pass  # some producer wrote what is not UTF-8; the slow way replaces it, as Java does
            else:
                parts = pc.split_pattern(text, "\x01").flatten().slice(0, 2 * count)
                if pc.min(pc.binary_length(parts)).as_py():
                    names, values = parts.take(_upto(count, 2)), parts.take(_upto(count, 2, 1))
                    if order := _order(rows, names):
                        return _Pairs(_upto(len(rows) + 1, len(order)).cast(pa.int32()), names, values, order)
                    return _Pairs(_starts([row.count(_NAME_END) for row in rows]), names, values)
        opened = [decode_properties(row) for row in self.columns.properties]
        names = [name for row in opened for name in row]
        values = [value for row in opened for value in row.values()]
        return _Pairs(
            _starts([len(row) for row in opened]), pa.array(names, pa.string()), pa.array(values, pa.string())
        )

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
                return pa.nulls(len(self.columns), kind)
            return values.take(_upto(len(self.columns), len(order), order.index(name))).cast(kind)
        pairs = pc.indices_nonzero(pc.equal(names, name))
        if not len(pairs):
            return pa.nulls(len(self.columns), kind)
        owners = self._rows_of_pairs.take(pairs)
        if owners.equals(_upto(len(self.columns), 1)):  # each row has it, once
            return values.take(pairs).cast(kind)
        if pc.count_distinct(owners).as_py() < len(owners):
            return pc.map_lookup(self._map, pa.scalar(name), "last").cast(kind)
        places = pc.index_in(_upto(len(self.columns), 1), value_set=owners)
        return values.take(pairs).take(places).cast(kind)

    def message_id(self, kind: pa.DataType) -> pa.Array:
        found = self.text_of("UNIQ_KEY", kind)
        if not self.columns.offset_ids:
            return found
        ids = [self.columns.offset_ids.get(row) for row in range(len(self.columns))]
        return pc.coalesce(found, pa.array(ids, kind))


def _starts(counts: list[int]) -> pa.Array:
    return pa.array([0, *accumulate(counts)], pa.int32())


def _order(rows: list[bytes], names: pa.Array) -> tuple[str, ...]:
    """The names that each of the rows has, in their order; nothing where rows differ or say a name twice."""
    width, rest = divmod(len(names), len(rows))
    if rest or not width:
        return ()
    order = tuple(names.slice(0, width).to_pylist())
    if len(set(order)) < width or not names.equals(_repeated(order, _room(len(rows))).slice(0, len(names))):
        return ()
    # The names come round and round; where each row begins with the first of them, each has one round.
    return order if all(map(bytes.startswith, rows, repeat(order[0].encode() + _NAME_END))) else ()


@lru_cache(maxsize=8)
def _repeated(texts: tuple[str, ...], times: int) -> pa.Array:
    return pa.array(texts * times, pa.string())


@lru_cache(maxsize=64)
def _whole_numbers(count: int, step: int, first: int) -> pa.Array:
    return pa.array(range(first, first + count * step, step), pa.int64())


def _upto(count: int, step: int, first: int = 0) -> pa.Array:
    """`first`, `first` + step, ..., `count` of them, cut from one that is kept: most batches are about equally long."""
    return _whole_numbers(_room(count), step, first).slice(0, count)


def _room(count: int) -> int:
    return 1 << max(count - 1, 1).bit_length()


_BUILDERS: dict[str, Callable[[Rows, pa.DataType], pa.Array]] = {
    "topic": lambda rows, kind: rows.constant(rows.columns.queue.topic, kind),
    "broker": lambda rows, kind: rows.constant(rows.columns.queue.broker, kind),
    "queueId": lambda rows, kind: rows.constant(rows.columns.queue.number, kind),
    "offset": lambda rows, kind: pa.array(rows.columns.offsets, kind),
    "key": lambda rows, kind: rows.text_of("KEYS", kind),
    "tag": lambda rows, kind: rows.text_of("TAGS", kind),
    "body": lambda rows, kind: pa.array(rows.columns.bodies, kind),
    "storeTime": lambda rows, kind: rows.time(rows.columns.stored_ms, kind),
    "bornTime": lambda rows, kind: rows.time(rows.columns.born_ms, kind),
    "msgId": lambda rows, kind: rows.message_id(kind),
    "reconsumeTimes": lambda rows, kind: pa.array(rows.columns.reconsume_times, kind),
    "properties": lambda rows, kind: rows.map(kind),
}
