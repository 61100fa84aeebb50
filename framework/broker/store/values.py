"""Settings by name, as they are saved: a name server's key-value namespaces, and what was changed of a running broker.

A scope keeps the values of one owner apart from all others'. Does not know what a name means.
"""

from __future__ import annotations

import sqlite3

from framework.broker.store.columns import NAMED_VALUES
from framework.broker.store.tables import SavedTable


class NamedValues:
    """Read from memory; written with the next group of writes."""

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
