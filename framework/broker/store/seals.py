"""A check beside each row of the small tables, which hold what nobody could tell from a mistake: a committed offset, a
queue's lowest one, a name. Seen at each start, together with the pages that lead to the rows.

A CRC-32 says more than that a row is damaged: one flipped bit leaves exactly one row that fits, so it is put right and
named. Whatever is worse than that is named and refused.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any, NamedTuple
from zlib import crc32

from framework.broker.store.columns import SEALED, Table
from framework.errors import shorten

Row = tuple[Any, ...]

_INTEGER_BITS = 64


class Mended(NamedTuple):
    """A row in which one bit had flipped."""

    table: str
    row: Row
    """As it is again."""


def sealed(row: Row) -> Row:
    """The row with its check, as it is written; in the order of its columns."""
    plain = tuple(int(value) if isinstance(value, bool) else value for value in row)
    return (*plain, seal(plain))


def seal(row: Row) -> int:
    return crc32(repr(row).encode("utf-8", "surrogateescape"))


def seal_all(connection: sqlite3.Connection) -> None:
    """Give rows of an older version their checks, inside a transaction of the caller's."""
    for table in SEALED:
        _rewrite(connection, table, [row[:-1] for row in _rows(connection, table)])


def check(connection: sqlite3.Connection) -> list[Mended]:
    """See that every row is what was written. ValueError names one that is not and cannot be put right."""
    mended: list[Mended] = []
    for table in SEALED:
        rows = list(_rows(connection, table))
        whole = [row[:-1] if row[-1] == seal(row[:-1]) else _mend(table, row) for row in rows]
        if found := [Mended(table.name, new) for new, old in zip(whole, rows, strict=True) if (*new, seal(new)) != old]:
            connection.execute("BEGIN IMMEDIATE")
            _rewrite(connection, table, whole)
            connection.execute("COMMIT")
            mended += found
        (fault,) = connection.execute(f"PRAGMA integrity_check({table.name})").fetchone()
        if fault != "ok":
            raise ValueError(f"table of {_name(table)}: {fault}")
    return mended


def _mend(table: Table, row: Row) -> Row:
    """The row with one bit put back."""
    if isinstance(row[-1], int):
        if (row[-1] ^ seal(row[:-1])).bit_count() == 1:
            return row[:-1]  # it was the check's own
        for candidate in _with_one_bit_changed(row[:-1]):
            if seal(candidate) == row[-1]:
                return candidate
    raise ValueError(f"table of {_name(table)}: row {shorten(str(row[:-1]))} is not what its check says")


def _with_one_bit_changed(row: Row) -> Iterator[Row]:
    for at, value in enumerate(row):
        if isinstance(value, int):
            for bit in range(_INTEGER_BITS - 1):
                yield (*row[:at], value ^ (1 << bit), *row[at + 1 :])
            yield (*row[:at], value ^ -(1 << (_INTEGER_BITS - 1)), *row[at + 1 :])
        elif isinstance(value, str):
            data = bytearray(value.encode("utf-8", "surrogateescape"))
            for i in range(len(data) * 8):
                data[i >> 3] ^= 1 << (i & 7)
                yield (*row[:at], data.decode("utf-8", "surrogateescape"), *row[at + 1 :])
                data[i >> 3] ^= 1 << (i & 7)


def _rows(connection: sqlite3.Connection, table: Table) -> list[Row]:
    """All of them, texts that are none any more among them."""
    try:
        return connection.execute(table.select).fetchall()
    except (sqlite3.OperationalError, UnicodeDecodeError):
        usual, connection.text_factory = connection.text_factory, _text
        try:
            return connection.execute(table.select).fetchall()
        finally:
            connection.text_factory = usual


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _rewrite(connection: sqlite3.Connection, table: Table, rows: list[Row]) -> None:
    """Put all rows anew: one whose key had changed stands in the wrong place."""
    connection.execute(table.delete_all)
    connection.executemany(table.insert, [sealed(row) for row in rows])


def _name(table: Table) -> str:
    return table.name.replace("_", " ")
