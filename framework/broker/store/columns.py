"""The columns of the store's small tables, said once: how rows are read, written and removed follows from them.

The order is that of the values in a row, and what a row's check in `seal` is made of; it is not SQLite's own.
"""

from __future__ import annotations

from typing import NamedTuple


class Table(NamedTuple):
    """Its name, the columns that name a row, and the others."""

    name: str
    keys: tuple[str, ...]
    values: tuple[str, ...]

    @property
    def is_sealed(self) -> bool:
        """Whether the last column is a check of all others."""
        return self.values[-1] == "seal"

    @property
    def select(self) -> str:
        return f"SELECT {self._columns} FROM {self.name}"  # noqa: S608  # these names are ours, here and below

    @property
    def insert(self) -> str:
        marks = ", ".join("?" for _ in (*self.keys, *self.values))
        return f"INSERT INTO {self.name} ({self._columns}) VALUES ({marks})"  # noqa: S608

    @property
    def upsert(self) -> str:
        return self.insert.replace("INSERT", "INSERT OR REPLACE", 1)

    @property
    def delete(self) -> str:
        """The row of a key."""
        return f"{self.delete_all} WHERE {' AND '.join(f'{name} = ?' for name in self.keys)}"

    @property
    def delete_all(self) -> str:
        return f"DELETE FROM {self.name}"  # noqa: S608

    @property
    def _columns(self) -> str:
        return ", ".join((*self.keys, *self.values))


_PLACE = ("broker", "consumer_group", "topic", "number")

QUEUES = Table("queues", ("id",), ("broker", "topic", "number", "low", "seal"))
LOG_END = Table("log_end", ("place",), ("stored_ms", "seal"))
TOPICS = Table(
    "topics", ("broker", "name"),
    ("read_queues", "write_queues", "perm", "is_ordered", "sys_flag", "attributes", "seal"),
)  # fmt: skip
GROUPS = Table(
    "consumer_groups", ("broker", "name"),
    ("may_consume", "may_broadcast", "retry_queues", "retries_max", "notifies_members", "forbidden", "kept", "seal"),
)  # fmt: skip
OFFSETS = Table("offsets", _PLACE, ("next_offset", "seal"))
RESETS = Table("resets", _PLACE, ("next_offset", "seal"))
LOCKS = Table(
    "queue_locks", ("broker", "consumer_group", "topic", "queue_broker", "number"), ("client_id", "seal")
)  # fmt: skip
NAMED_VALUES = Table("named_values", ("scope", "name"), ("value", "seal"))
HALVES = Table(
    "halves", ("broker", "place"),
    ("queue_offset", "producer_group", "begun_ms", "checks", "due_ms", "state", "seal"),
)  # fmt: skip
POPPED = Table("popped", ("broker", "consumer_group", "message"), ("popped_ms", "due_ms", "seal"))
PROGRESS = Table("progress", _PLACE, ("epoch", "checksum", "content"))
SEALED = (QUEUES, LOG_END, TOPICS, GROUPS, OFFSETS, RESETS, LOCKS, NAMED_VALUES, HALVES, POPPED)
