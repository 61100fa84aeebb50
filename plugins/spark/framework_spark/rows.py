r"""Columns of a reader as an Arrow record batch in the shape that Spark asked for; what is not asked for is not built.

Properties are the dearest column. They are cut for a whole batch at once, by Arrow and without an object a text:
brokers store `name \x01 value \x02`, repeated, so all rows joined and split at both separators are names and values in
turn. Rows of another shape (an empty name, a value with a separator in it) send the batch the slow way.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from framework.reading import Columns, decode_properties

_NAME_END, _PAIR_END = b"\x01", b"\x02"
_TEXT = bytes(byte for byte in range(256) if byte not in {1, 2})


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
    def _pairs(self) -> tuple[pa.Array, pa.Array, pa.Array]:
        """Where each row's properties begin, and all names and values."""
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
                    evens = _upto(count, 2)
                    starts = _starts([row.count(_NAME_END) for row in rows])
                    return starts, parts.take(evens), parts.take(pc.add(evens, 1))
        opened = [decode_properties(row) for row in self.columns.properties]
        names = [name for row in opened for name in row]
        values = [value for row in opened for value in row.values()]
        return _starts([len(row) for row in opened]), pa.array(names, pa.string()), pa.array(values, pa.string())

    @cached_property
    def _rows_of_pairs(self) -> pa.Array:
        starts, names, _ = self._pairs
        return pc.list_parent_indices(pa.ListArray.from_arrays(starts, names))

    @cached_property
    def _map(self) -> pa.MapArray:
        return pa.MapArray.from_arrays(*self._pairs)

    def map(self, kind: pa.DataType) -> pa.Array:
        return pa.MapArray.from_arrays(*self._pairs, type=kind)

    def text_of(self, name: str, kind: pa.DataType) -> pa.Array:
        _, names, values = self._pairs
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


@lru_cache(maxsize=8)
def _whole_numbers(count: int, step: int) -> pa.Array:
    return pa.array(range(0, count * step, step), pa.int64())


def _upto(count: int, step: int) -> pa.Array:
    """0, step, 2 * step, ..., `count` of them; cut from one that is kept, since most batches are about equally long."""
    return _whole_numbers(1 << max(count - 1, 1).bit_length(), step).slice(0, count)


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
