"""Table: what relays and commands do with the table, each in one short transaction. It blocks: call it on a thread.

SQL that both databases share is here, with `?` for values; how to connect, and what differs, is in `sqlite.py` and
`postgresql.py`. Time is the database's own, because relays on machines whose clocks differ share claims.

    waiting   written; claimed for a time by the relay that sends it (`due_ms` lies ahead), or after a failure
    sent      stored by a broker; removed after `keep`
    refused   no broker will ever take it as it is: it waits for a person, and holds later rows of its key
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from framework.errors import FrameworkError
from framework_outbox.rows import Row

SWEEP_ROWS = 1_000  # removed at once, so that no writer waits long for the table
SHOWN_MAX = 20
COUNTED_MAX = 100_000  # of what waits; more is as bad, and takes longer to count


class TableError(FrameworkError):
    """The database answered with an error, or not at all; its own words are in it, and no password."""

    id = "FA-O002"


@dataclass(frozen=True, slots=True)
class Failure:
    """One row that could not be sent."""

    number: int
    reason: str
    wait_ms: int
    """Before it is tried again."""
    is_final: bool = False
    """No broker will take it as it is."""


@dataclass(frozen=True, slots=True)
class Refused:
    """One row that waits for a person."""

    number: int
    message_id: str
    topic: str
    key: str | None
    reason: str
    behind: int
    """So many rows of its key wait for it."""


@dataclass(frozen=True, slots=True)
class Status:
    """The table as it is now."""

    waiting: int
    failing: int
    """Of those that wait: tried at least once."""
    sent: int
    refused: int
    oldest_ms: int
    """For how long the oldest one waits."""
    reason: str
    """Why the last one of those that fail did."""
    worst: Sequence[Refused]
    """The first ones that are refused."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """What is not sent."""

    waiting: int = 0
    """At most `COUNTED_MAX`."""
    refused: int = 0
    """Likewise."""
    oldest_ms: int = 0
    """For how long the first one waits."""


class Table(ABC):
    """One table by one connection, which is made when it is needed, and anew after an error. One thread at a time."""

    now_sql = ""
    """Unix time in milliseconds, as the database has it."""
    types: ClassVar[Mapping[str, str]] = {}
    """What its columns are called there."""
    begin = "BEGIN"
    claim_lock = ""
    """What makes claims wait for each other, where `begin` does not."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._connection: Any = None
        self._alone = threading.Lock()

    # What databases differ in

    @abstractmethod
    def connect(self) -> Any:
        """A connection with `execute`, which commits by itself outside of a transaction."""

    @abstractmethod
    def errors(self) -> tuple[type[Exception], ...]:
        """What the driver raises."""

    def spelled(self, sql: str) -> str:
        """The statement as this driver takes it."""
        return sql

    @abstractmethod
    def __str__(self) -> str:
        """Where it is, without a password."""

    # For relays

    def create(self) -> None:
        """Make it where it is missing. Nothing else does, so that a mistyped name is an error and no empty table."""
        with self._transaction() as connection:
            self._made(connection)

    def _made(self, connection: Any) -> None:
        for statement in self.schema():
            connection.execute(statement)

    def schema(self) -> Sequence[str]:
        """The statements that make the table where it is missing."""
        name, kind = self.name, self.types
        schema, _, plain = name.rpartition(".")
        columns = (
            f"id {kind['id']}",
            *(f"{column} {kind['text']} NOT NULL" for column in ("message_id", "topic", "properties")),
            f"ordering_key {kind['text']}",
            f"body {kind['bytes']} NOT NULL",
            f"created_ms {kind['number']} NOT NULL DEFAULT ({self.now_sql})",
            f"state {kind['text']} NOT NULL DEFAULT 'waiting'",
            f"attempts {kind['number']} NOT NULL DEFAULT 0",
            f"due_ms {kind['number']} NOT NULL DEFAULT 0",
            f"ended_ms {kind['number']}",
            *(f"{column} {kind['text']}" for column in ("claimed_by", "reason")),
        )
        indexes = {
            "open": "(id) WHERE state = 'waiting'",
            "keys": "(ordering_key, id) WHERE state <> 'sent' AND ordering_key IS NOT NULL",
            "sent": "(ended_ms) WHERE state = 'sent'",
            "refused": "(id) WHERE state = 'refused'",
        }
        return (
            f"CREATE TABLE IF NOT EXISTS {name} ({', '.join(columns)})",
            *(
                f"CREATE INDEX IF NOT EXISTS {self.index(schema, f'{plain}_{index}')} ON {self.indexed(plain)} {what}"
                for index, what in indexes.items()
            ),
        )

    def index(self, schema: str, name: str) -> str:
        """How an index is named that is made."""
        return name

    def indexed(self, plain: str) -> str:
        """How its table is named there."""
        return self.name

    def claim(self, relay: str, limit: int, lease_ms: int) -> list[Row]:
        """The next rows to be sent, claimed: none whose key has an earlier one that is claimed, waits or is refused."""
        with self._transaction() as connection:
            if self.claim_lock:
                connection.execute(self.claim_lock)
            now_ms = self._now_ms(connection)
            found = self._all(
                connection,
                f"SELECT id, message_id, topic, ordering_key, body, properties, attempts FROM {self.name} AS o "
                "WHERE state = 'waiting' AND due_ms <= ? AND (ordering_key IS NULL OR NOT EXISTS ("
                f"SELECT 1 FROM {self.name} AS e WHERE e.ordering_key = o.ordering_key AND e.id < o.id "
                "AND (e.state = 'refused' OR e.state = 'waiting' AND e.due_ms > ?))) ORDER BY id LIMIT ?",
                (now_ms, now_ms, limit),
            )
            rows = [Row(*each) for each in found]
            self._many(
                connection,
                f"UPDATE {self.name} SET due_ms = ?, claimed_by = ? WHERE id = ?",
                [(now_ms + lease_ms, relay, row.number) for row in rows],
            )
        return rows

    def ended(
        self, relay: str, sent: Sequence[int], failed: Sequence[Failure], left: Sequence[int], *, keeps: bool
    ) -> None:
        """Note what became of claimed rows; those that are `left` may be claimed again at once.

        A row that another relay has claimed since stays that relay's, also if it was sent: it is sent once more, and
        later rows of its key wait until then.
        """
        with self._transaction() as connection:
            now_ms = self._now_ms(connection)
            mine = "WHERE id = ? AND claimed_by = ? AND state = 'waiting'"
            no_other_s = "WHERE id = ? AND (claimed_by = ? OR claimed_by IS NULL)"
            if keeps:
                done = "state = 'sent', ended_ms = ?, claimed_by = NULL, reason = NULL"
                change = f"UPDATE {self.name} SET {done} {no_other_s}"
                self._many(connection, change, [(now_ms, number, relay) for number in sent])
            else:
                self._many(connection, f"DELETE FROM {self.name} {no_other_s}", [(number, relay) for number in sent])
            self._many(
                connection,
                f"UPDATE {self.name} SET state = ?, attempts = attempts + 1, due_ms = ?, ended_ms = ?, reason = ?, "
                f"claimed_by = NULL {mine}",
                [
                    (
                        "refused" if each.is_final else "waiting", now_ms + each.wait_ms,
                        now_ms if each.is_final else None, each.reason, each.number, relay,
                    )
                    for each in failed
                ],
            )  # fmt: skip
            self._many(
                connection,
                f"UPDATE {self.name} SET due_ms = 0, claimed_by = NULL {mine}",
                [(number, relay) for number in left],
            )

    def sweep(self, keep_ms: int) -> int:
        """Remove some of those that were sent long ago; answers how many."""
        with self._transaction() as connection:
            found = self._all(
                connection,
                f"SELECT id FROM {self.name} WHERE state = 'sent' AND ended_ms <= ? ORDER BY ended_ms LIMIT ?",
                (self._now_ms(connection) - keep_ms, SWEEP_ROWS),
            )
            self._many(connection, f"DELETE FROM {self.name} WHERE id = ? AND state = 'sent'", found)
        return len(found)

    def backlog(self) -> Backlog:
        """What metrics tell: counted by the indexes alone, and not further than it matters."""
        waiting, refused = (f"FROM {self.name} WHERE state = '{state}'" for state in ("waiting", "refused"))
        with self._transaction() as connection:
            now_ms = self._now_ms(connection)
            ((count, of_refused, first_ms),) = self._all(
                connection,
                f"SELECT (SELECT count(*) FROM (SELECT 1 {waiting} LIMIT {COUNTED_MAX}) AS w), "
                f"(SELECT count(*) FROM (SELECT 1 {refused} LIMIT {COUNTED_MAX}) AS r), "
                f"(SELECT created_ms {waiting} ORDER BY id LIMIT 1)",
                (),
            )
        return Backlog(count, of_refused, 0 if first_ms is None else max(now_ms - first_ms, 0))

    def close(self) -> None:
        with self._alone:
            self._drop()

    # For people

    def status(self) -> Status:
        with self._transaction() as connection:
            now_ms = self._now_ms(connection)
            counts = dict(self._all(connection, f"SELECT state, count(*) FROM {self.name} GROUP BY state", ()))
            ((oldest, failing),) = self._all(
                connection,
                "SELECT min(created_ms), count(CASE WHEN attempts > 0 THEN 1 END) "
                f"FROM {self.name} WHERE state = 'waiting'",
                (),
            )
            said = self._all(
                connection,
                f"SELECT reason FROM {self.name} WHERE state = 'waiting' AND reason IS NOT NULL "
                "ORDER BY id DESC LIMIT 1",
                (),
            )
            worst = self._all(
                connection,
                f"SELECT id, message_id, topic, ordering_key, reason, (SELECT count(*) FROM {self.name} AS w WHERE "
                "w.ordering_key = r.ordering_key AND w.id > r.id AND w.state = 'waiting') "
                f"FROM {self.name} AS r WHERE state = 'refused' ORDER BY id LIMIT ?",
                (SHOWN_MAX,),
            )
        return Status(
            waiting=counts.get("waiting", 0), failing=failing, sent=counts.get("sent", 0),
            refused=counts.get("refused", 0), oldest_ms=0 if oldest is None else max(now_ms - oldest, 0),
            reason=said[0][0] if said else "", worst=[Refused(*each) for each in worst],
        )  # fmt: skip

    def retry(self, numbers: Sequence[int] | None) -> int:
        """Have rows sent that are refused, or wait after a failure: these, or all; answers how many that are."""
        change = (
            f"UPDATE {self.name} SET state = 'waiting', due_ms = 0, ended_ms = NULL WHERE claimed_by IS NULL AND "
            "(state = 'refused' OR state = 'waiting' AND attempts > 0)"
        )
        return self._changed(change, numbers)

    def discard(self, numbers: Sequence[int]) -> int:
        """Remove rows that are refused; answers how many."""
        return self._changed(f"DELETE FROM {self.name} WHERE state = 'refused'", numbers)

    def _changed(self, change: str, numbers: Sequence[int] | None) -> int:
        with self._transaction() as connection:
            if numbers is None:
                return int(connection.execute(change).rowcount)
            each = self.spelled(f"{change} AND id = ?")
            return sum(int(connection.execute(each, (number,)).rowcount) for number in numbers)

    # How

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        with self._alone:
            try:
                if self._connection is None:
                    self._connection = self.connect()
                connection = self._connection
                connection.execute(self.begin)
                yield connection
                connection.execute("COMMIT")
            except self.errors() as error:
                self._drop()
                raise TableError(f"{self}: {' '.join(str(error).split())}") from None
            except BaseException:
                self._drop()
                raise

    def _drop(self) -> None:
        """What was begun is rolled back with it."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _now_ms(self, connection: Any) -> int:
        ((now_ms,),) = self._all(connection, f"SELECT {self.now_sql}", ())
        return int(now_ms)

    def _all(self, connection: Any, sql: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        return list(connection.execute(self.spelled(sql), values).fetchall())

    def _many(self, connection: Any, sql: str, rows: Sequence[Sequence[object]]) -> None:
        """For each of the rows; none is no statement."""
        if rows:
            connection.cursor().executemany(self.spelled(sql), rows)

    def __repr__(self) -> str:
        return f"<Table {self.name} of {self}>"


def described(status: Status) -> Mapping[str, object]:
    """For programs."""
    return {
        "waiting": status.waiting, "failing": status.failing, "sent": status.sent, "refused": status.refused,
        "oldest_ms": status.oldest_ms, "reason": status.reason,
        "refused_rows": [
            {"id": each.number, "message_id": each.message_id, "topic": each.topic, "key": each.key,
             "reason": each.reason, "behind": each.behind}
            for each in status.worst
        ],
    }  # fmt: skip
