r"""Properties of a batch, cut for all rows at once: names and values, and which row they belong to.

Brokers store `name \x01 value \x02`, repeated, the last \x02 perhaps missing. All rows, joined and divided at both
separators, are names and values in turn, found by looking at bytes and not at texts. Rows of another shape (no
property, an empty name, a value with a separator in it, text that is not UTF-8) send the batch the slow way. If all
rows name the same properties in the same order, as those of one producer mostly do, each name is a column found by
counting.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from framework.reading import decode_properties

NAME_END, PAIR_END = 1, 2

Numbers: TypeAlias = "np.ndarray[Any, Any]"


class Pairs(NamedTuple):
    """The properties of a batch, those of all rows in one line."""

    starts: pa.Array
    names: pa.Array
    values: pa.Array
    order: tuple[str, ...] = ()
    """The names that every row has, in this order and no other; empty where rows differ."""


def pairs_of(texts: pa.BinaryArray) -> Pairs:
    """Of rows as they are stored, one text each."""
    return _alike(texts) or _quickly(texts) or _slowly(texts.to_pylist())


def _alike(texts: pa.BinaryArray) -> Pairs | None:
    """Of rows that differ in values alone, each as long as in all others: names and values are columns of a table."""
    table = _table(texts)
    if table is None:
        return None
    first = table[0]
    marks = np.flatnonzero(first <= PAIR_END)
    if np.count_nonzero(table <= PAIR_END) != len(marks) * len(table) or (table >= 0x80).any():
        return None
    stop = len(first) - int(first[-1] == PAIR_END)
    if stop < len(first):
        if (table[:, stop] != PAIR_END).any():
            return None
        marks = marks[:-1]
    if not len(marks) % 2 or (first[marks[0::2]] != NAME_END).any() or (first[marks[1::2]] != PAIR_END).any():
        return None
    ends = marks[0::2].tolist()  # of names; values begin one further on
    befores, afters = [-1, *marks[1::2].tolist()], [*marks[1::2].tolist(), stop]
    if any(end - before < 2 for before, end in zip(befores, ends, strict=True)):
        return None  # an empty name
    if any(after - end < 2 for end, after in zip(ends, afters, strict=True)):
        return None  # an empty value
    for before, end in zip(befores, ends, strict=True):
        if (table[:, max(before, 0) : end + 1] != first[max(before, 0) : end + 1]).any():
            return None
    order = tuple(bytes(first[before + 1 : end]).decode() for before, end in zip(befores, ends, strict=True))
    if len(set(order)) < len(order):
        return None
    parts = [table[:, end + 1 : after] for end, after in zip(ends, afters, strict=True)]
    widths = [0, *accumulate(part.shape[1] for part in parts)]
    values = np.concatenate(parts, axis=1)
    count = len(table) * len(parts)
    places = np.empty(count + 1, np.int32)
    places[:-1] = np.add.outer(np.arange(len(table), dtype=np.int32) * widths[-1], np.array(widths[:-1])).ravel()
    places[-1] = values.size
    texts = pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(places), pa.py_buffer(values)])
    starts = upto(len(table) + 1, len(parts)).cast(pa.int32())
    return Pairs(starts, _repeated(order, _room(len(table))).slice(0, count), texts, order)


def _table(texts: pa.BinaryArray) -> Numbers | None:
    _, offsets, data = texts.buffers()
    if not len(texts) or data is None:
        return None
    bounds: Numbers = np.frombuffer(offsets, np.int32, len(texts) + 1, 4 * texts.offset)
    size = int(bounds[1] - bounds[0])
    if not size or (np.diff(bounds) != size).any():
        return None
    return np.frombuffer(data, np.uint8, len(texts) * size, int(bounds[0])).reshape(len(texts), size)


def _slowly(rows: Sequence[bytes]) -> Pairs:
    opened = [decode_properties(row) for row in rows]
    starts = pa.array([0, *accumulate(len(row) for row in opened)], pa.int32())
    names, values = [name for row in opened for name in row], [value for row in opened for value in row.values()]
    return Pairs(starts, pa.array(names, pa.string()), pa.array(values, pa.string()))


def _quickly(texts: pa.BinaryArray) -> Pairs | None:
    joined = _joined(texts)
    if joined is None:
        return None
    data, begins = joined
    parts = _divided(data)
    if parts is None:
        return None
    places, divided = parts
    count, name_places = (len(divided) + 1) // 4, places[0::4]
    names, values = divided.take(upto(count, 4)), divided.take(upto(count, 4, 2))
    width, rest = divmod(count, len(begins))
    if not rest and (name_places[::width] == begins).all():
        order = tuple(names.slice(0, width).to_pylist())
        pattern = _repeated(order, _room(len(begins))).slice(0, count)
        if len(set(order)) == width and names.equals(pattern):
            return Pairs(upto(len(begins) + 1, width).cast(pa.int32()), pattern, values, order)
    starts = np.append(np.searchsorted(name_places, begins), count)
    return Pairs(pa.array(starts, pa.int32()), names, values)


def _joined(texts: pa.BinaryArray) -> tuple[pa.Buffer, Numbers] | None:
    """All rows with a separator between them and none at the end, and where each begins; None where one is empty."""
    _, offsets, data = texts.buffers()
    if not len(texts) or data is None:
        return None
    bounds: Numbers = np.frombuffer(offsets, np.int32, len(texts) + 1, 4 * texts.offset)
    begins, ends = bounds[:-1], bounds[1:]
    if (begins == ends).any():
        return None
    seen: Numbers = np.frombuffer(data, np.uint8)
    ended = seen[ends - 1] == PAIR_END
    if ended.all():
        return data.slice(int(begins[0]), int(ends[-1] - begins[0]) - 1), begins - begins[0]
    if ended.any():
        if (ends - begins - ended == 0).any():
            return None
        texts = ranges(data, begins, ends - ended, pa.binary())
        begins = np.frombuffer(texts.buffers()[1], np.int32, len(texts))
    line = pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts)
    whole = pc.binary_join(line, pa.scalar(bytes([PAIR_END])))[0].as_buffer()
    return whole, begins - begins[0] + np.arange(len(begins))


def _divided(data: pa.Buffer) -> tuple[Numbers, pa.Array] | None:
    """Name, separator, value, separator, and so on, and where each begins; None where that is not how it goes on."""
    seen: Numbers = np.frombuffer(data, np.uint8)
    marks = np.flatnonzero(seen <= PAIR_END)
    kinds = seen[marks]
    if not len(marks) % 2 or (kinds[0::2] != NAME_END).any() or (kinds[1::2] != PAIR_END).any():
        return None
    if marks[0] == 0 or marks[-1] == len(seen) - 1 or (np.diff(marks) == 1).any():
        return None  # an empty name or value
    if (seen >= 0x80).any():
        try:
            pa.array([data.to_pybytes()], pa.binary()).cast(pa.string())
        except pa.ArrowInvalid:
            return None  # some producer wrote what is not UTF-8; the slow way replaces it, as Java does
    places = np.empty(2 * len(marks) + 2, np.int32)
    places[0], places[1:-1:2], places[2::2], places[-1] = 0, marks, marks + 1, len(seen)
    return places, pa.Array.from_buffers(pa.string(), len(places) - 1, [None, pa.py_buffer(places), data])


def ranges(data: object, begins: Numbers, ends: Numbers, kind: pa.DataType) -> pa.Array:
    """The bytes from each begin to its end, copied one after the other: every second of what these places divide."""
    if not len(begins):
        return pa.array([], kind)
    places = np.empty(2 * len(begins), np.int32)
    places[0::2], places[1::2] = begins, ends
    buffers = [None, pa.py_buffer(places), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(places) - 1, buffers).take(upto(len(begins), 2)).cast(kind)


@lru_cache(maxsize=8)
def _repeated(texts: tuple[str, ...], times: int) -> pa.Array:
    return pa.array(texts * times, pa.string())


@lru_cache(maxsize=64)
def _whole_numbers(count: int, step: int, first: int) -> pa.Array:
    return pa.array(np.arange(first, first + count * step, step), pa.int64())


def upto(count: int, step: int, first: int = 0) -> pa.Array:
    """`first`, `first` + step, ..., `count` of them, cut from one that is kept: most batches are about equally long."""
    return _whole_numbers(_room(count), step, first).slice(0, count)


def _room(count: int) -> int:
    return 1 << max(count - 1, 1).bit_length()
