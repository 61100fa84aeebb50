"""A table of the store that also stands in memory, whole: topics, groups, offsets.

Reading is a dictionary's; what was changed is written with the next group of writes, whichever it is, and written again
should that group fail.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from framework.broker.store.columns import NAMED_VALUES, Table
from framework.broker.store.seals import sealed

K = TypeVar("K")
V = TypeVar("V")
Row = tuple[Any, ...]


class SavedTable(Generic[K, V]):
    """A dictionary whose changes reach the disk."""

    def __init__(
        self, table: Table, scope: Row = (), *, to_key: Callable[[K], Row], to_row: Callable[[V], Row]
    ) -> None:
        """`scope` is what the first columns hold in each of its rows: one table holds those of many brokers."""
        self._values: dict[K, V] = {}
        # Dictionaries, not sets: their order is the order of the changes, the same in every run.
        self._dirty: dict[K, None] = {}
        self.changes = 0
        """How often something changed since the start."""
        self._in_flight: dict[K, None] = {}
        self._table, self._scope = table, scope
        self._upsert, self._delete = table.upsert, table.delete
        self._to_key, self._to_row = to_key, to_row

    def rows(self, connection: sqlite3.Connection) -> Iterator[Row]:
        """What is on disk: each row without its scope and its check, which the start has looked at."""
        where = "".join(f" WHERE {name} = ?" for name in self._table.keys[: len(self._scope)])
        end = -1 if self._table.is_sealed else None
        for row in connection.execute(f"{self._table.select}{where}", self._scope).fetchall():
            yield row[len(self._scope) : end]

    def load(self, key: K, value: V) -> None:
        """Take a row that is on disk already."""
        self._values[key] = value

    def get(self, key: K) -> V | None:
        return self._values.get(key)

    def put(self, key: K, value: V) -> None:
        self._values[key] = value
        self._dirty[key] = None
        self.changes += 1

    def drop(self, key: K) -> None:
        if self._values.pop(key, None) is not None:
            self._dirty[key] = None
            self.changes += 1

    def drop_where(self, is_meant: Callable[[K], bool]) -> None:
        for key in [key for key in self._values if is_meant(key)]:
            self.drop(key)

    def items(self) -> Iterator[tuple[K, V]]:
        return iter(list(self._values.items()))

    def keys(self) -> list[K]:
        return list(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: K) -> bool:
        return key in self._values

    @property
    def is_dirty(self) -> bool:
        return bool(self._dirty)

    @property
    def is_saved(self) -> bool:
        """Whether everything is on disk, nothing on its way."""
        return not self._dirty and not self._in_flight

    def save(self, connection: sqlite3.Connection) -> None:
        """Write what changed, inside a transaction of the caller's."""
        if not self._dirty:
            return
        self._in_flight, self._dirty = self._dirty, {}
        values = self._values
        kept = [self._row(key, values[key]) for key in self._in_flight if key in values]
        gone = [(*self._scope, *self._to_key(key)) for key in self._in_flight if key not in values]
        if kept:
            connection.executemany(self._upsert, kept)
        if gone:
            connection.executemany(self._delete, gone)

    def saved(self, *, committed: bool) -> None:
        """Hear how that transaction ended."""
        if not committed:
            self._dirty = {**self._in_flight, **self._dirty}
        self._in_flight = {}

    def _row(self, key: K, value: V) -> Row:
        row = (*self._scope, *self._to_key(key), *self._to_row(value))
        return sealed(row) if self._table.is_sealed else row


class NamedValues:
    """Settings by name: a name server's key-value namespaces, and what was changed of a running broker.

    A scope keeps the values of one owner apart from all others'. What a name means is not known here.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.table: SavedTable[tuple[str, str], str] = SavedTable(
            NAMED_VALUES, to_key=lambda key: key, to_row=lambda value: (value,)
        )
        for scope, name, value in self.table.rows(connection):
            self.table.load((scope, name), value)

    def get(self, scope: str, name: str) -> str | None:
        return self.table.get((scope, name))

    def put(self, scope: str, name: str, value: str) -> None:
        self.table.put((scope, name), value)

    def drop(self, scope: str, name: str) -> None:
        self.table.drop((scope, name))

    def of_scope(self, scope: str) -> dict[str, str]:
        """All values of a scope, by name."""
        return {name: value for (where, name), value in self.table.items() if where == scope}

    def __len__(self) -> int:
        return len(self.table)
