r"""Columns of a reader as an Arrow record batch in the shape that Spark asked for; what is not asked for is not built.

Properties are the dearest column. They are cut for a whole batch at once: brokers store `name \x01 value \x02`,
repeated, so all rows joined and split at both separators are names and values in turn. Rows of another shape (an
empty name, a value with a separator in it) send the batch the slow way.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
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
        rows = [row if row.endswith(_PAIR_END) or not row else row + _PAIR_END for row in self.columns.properties]
        joined = b"".join(rows)
        marks = joined.translate(None, _TEXT)
        count = len(marks) // 2
        is_plain = (
            marks == b"\x01\x02" * count
            and b"\x01\x02" not in joined
            and b"\x02\x01" not in joined
            and not joined.startswith(_NAME_END)
        )
        if is_plain:
            parts: list[Any] = joined.replace(_PAIR_END, _NAME_END).split(_NAME_END)
            parts.pop()
            try:
                return _pairs_of([row.count(_PAIR_END) for row in rows], parts[0::2], parts[1::2])
            except pa.ArrowInvalid:
                pass  # some producer wrote what is not UTF-8; the slow way replaces it, as Java does
        opened = [decode_properties(row) for row in self.columns.properties]
        names = [name for row in opened for name in row]
        return _pairs_of([len(row) for row in opened], names, [value for row in opened for value in row.values()])

    @cached_property
    def _map(self) -> pa.MapArray:
        return pa.MapArray.from_arrays(*self._pairs)

    def map(self, kind: pa.DataType) -> pa.Array:
        return pa.MapArray.from_arrays(*self._pairs, type=kind)

    def text_of(self, name: str, kind: pa.DataType) -> pa.Array:
        return pc.map_lookup(self._map, pa.scalar(name), "last").cast(kind)

    def message_id(self, kind: pa.DataType) -> pa.Array:
        found = self.text_of("UNIQ_KEY", kind)
        if not self.columns.offset_ids:
            return found
        ids = [self.columns.offset_ids.get(row) for row in range(len(self.columns))]
        return pc.coalesce(found, pa.array(ids, kind))


def _pairs_of(counts: list[int], names: list[Any], values: list[Any]) -> tuple[pa.Array, pa.Array, pa.Array]:
    starts = pa.array([0, *accumulate(counts)], pa.int32())
    return starts, pa.array(names, pa.string()), pa.array(values, pa.string())


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
