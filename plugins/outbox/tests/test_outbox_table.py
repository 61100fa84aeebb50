"""The table: claims, leases, order and what people do about it; in SQLite, and in a real PostgreSQL (`make slow
PART=postgresql`), which is started here by the programs of Debian's package.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import psycopg
import pytest
from framework_outbox import sqlite as of_sqlite
from framework_outbox.postgresql import PostgresqlTable
from framework_outbox.sqlite import SqliteTable
from framework_outbox.table import Backlog, Failure, Table, TableError
from framework_outbox.writing import Outbox

from framework import Message
from tests.patience import PATIENCE_S
from tests.postgresql import postgresql_at

LEASE_MS = 30_000
NOW_MS = 1_700_000_000_000


class Tables:
    """`make` answers a new connection to one table each time; `write` writes to it as a handler does."""

    def __init__(self, make: Callable[[], Table], write: Callable[[str, object], None], style: str) -> None:
        self._make, self._write, self._style = make, write, style

    def open(self, *, at_ms: int = NOW_MS) -> Table:
        table = self._make()
        table.now_sql = f"CAST({at_ms} AS bigint)"
        return table

    def write(self, *bodies: str, key: str | None = None) -> None:
        for body in bodies:
            self._write(*Outbox().statement(Message("payments", body), key=key, style=self._style))  # type: ignore[arg-type]  # one of them


def bodies(table: Table, *, relay: str = "one", limit: int = 100) -> list[str]:
    return [row.body.decode() for row in table.claim(relay, limit, LEASE_MS)]


def rows_come_in_order_with_all_that_they_hold(tables: Tables) -> None:
    table = tables.open()
    tables.write("a", "b", key="K")

    first, second = table.claim("one", 10, LEASE_MS)

    assert ("payments", "K", b"a", 0) == (first.topic, first.key, first.body, first.attempts)
    assert first.number < second.number
    message = first.message
    assert (b"a", first.message_id) == (message.body, message.message_id)
    assert "K" == message.properties["__SHARDINGKEY"]
    table.close()


def claimed_rows_are_another_s_when_the_lease_is_over(tables: Tables) -> None:
    tables.write("a", "b")
    one, two = tables.open(), tables.open()

    assert ["a"] == bodies(one, relay="one", limit=1)
    assert ["b"] == bodies(two, relay="two")
    assert [] == bodies(two, relay="two")
    two.now_sql = f"CAST({NOW_MS + LEASE_MS} AS bigint)"
    assert ["a", "b"] == bodies(two, relay="two")
    one.close()
    two.close()


def a_key_s_rows_wait_for_those_before_them(tables: Tables) -> None:
    tables.write("k1", key="K")
    tables.write("free")
    tables.write("k2", "k3", key="K")
    tables.write("l1", key="L")
    table = tables.open()

    (first,) = table.claim("one", 1, LEASE_MS)
    assert ["free", "l1"] == bodies(table, relay="two"), "k1 is claimed"
    table.ended("one", [], [Failure(first.number, "away", 1_000)], [], keeps=True)
    assert [] == bodies(table, relay="two"), "k1 waits after its failure"
    table.now_sql = f"CAST({NOW_MS + 1_000} AS bigint)"
    assert ["k1", "k2", "k3"] == bodies(table, relay="two"), "together they may go to one relay"
    table.close()


def what_was_sent_is_kept_and_swept(tables: Tables) -> None:
    tables.write("a", "b")
    table = tables.open()
    rows = table.claim("one", 10, LEASE_MS)

    table.ended("one", [rows[0].number], [], [rows[1].number], keeps=True)

    assert (1, 1, 0) == ((status := table.status()).waiting, status.sent, status.refused)
    assert ["b"] == bodies(table), "what was left is there at once"
    assert 0 == table.sweep(1_000)
    table.now_sql = f"CAST({NOW_MS + 1_000} AS bigint)"
    assert 1 == table.sweep(1_000)
    assert 0 == table.status().sent
    table.close()


def what_waits_and_what_is_refused_is_counted(tables: Tables) -> None:
    table = tables.open(at_ms=4_000_000_000_000)
    assert Backlog() == table.backlog()
    tables.write("sent", "bad", "a", "b")
    sent, bad = table.claim("one", 2, LEASE_MS)

    table.ended("one", [sent.number], [Failure(bad.number, "illegal", 0, is_final=True)], [], keeps=True)

    status, backlog = table.status(), table.backlog()
    assert (2, 1) == (status.waiting, status.refused)
    assert Backlog(status.waiting, status.refused, status.oldest_ms) == backlog
    assert backlog.oldest_ms > 0
    table.close()


def without_keeping_what_was_sent_is_gone(tables: Tables) -> None:
    tables.write("a")
    table = tables.open()
    (row,) = table.claim("one", 10, LEASE_MS)

    table.ended("one", [row.number], [], [], keeps=False)

    assert (0, 0) == (table.status().waiting, table.status().sent)
    table.close()


def who_lost_a_claim_changes_nothing(tables: Tables) -> None:
    tables.write("a", "b", "c")
    one, two = tables.open(), tables.open(at_ms=NOW_MS + LEASE_MS)
    a, b, c = one.claim("one", 10, LEASE_MS)
    assert 3 == len(two.claim("two", 10, LEASE_MS))

    one.ended("one", [a.number], [Failure(b.number, "illegal", 0, is_final=True)], [c.number], keeps=True)

    status = two.status()
    assert (3, 0, 0) == (status.waiting, status.sent, status.refused)
    assert [] == bodies(two, relay="two"), "all are still two's"
    one.close()
    two.close()


def a_row_that_was_sent_and_taken_over_holds_its_key_until_it_was_sent_again(tables: Tables) -> None:
    """Else what comes after it would be sent beside it, and be overtaken by its second copy."""
    tables.write("k1", "k2", key="K")
    one, two = tables.open(), tables.open(at_ms=NOW_MS + LEASE_MS)
    (first,) = one.claim("one", 1, LEASE_MS)
    assert ["k1"] == bodies(two, relay="two", limit=1)

    for keeps in (True, False):
        one.ended("one", [first.number], [], [], keeps=keeps)
        assert [] == bodies(one, relay="one")
    two.ended("two", [first.number], [], [], keeps=False)
    assert ["k2"] == bodies(one, relay="one")
    one.close()
    two.close()


def refused_rows_hold_their_key_until_somebody_decides(tables: Tables) -> None:
    tables.write("bad", "k2", "k3", key="K")
    table = tables.open()
    bad, k2, k3 = table.claim("one", 10, LEASE_MS)
    table.ended("one", [], [Failure(bad.number, "illegal", 0, is_final=True)], [k2.number, k3.number], keeps=True)

    assert [] == bodies(table)
    (worst,) = table.status().worst
    assert ("illegal", "K", 2) == (worst.reason, worst.key, worst.behind)

    assert 1 == table.retry(None)
    assert ["bad", "k2", "k3"] == bodies(table)
    table.ended("one", [], [Failure(bad.number, "illegal", 0, is_final=True)], [k2.number, k3.number], keeps=True)
    assert 0 == table.discard([k2.number]), "only what is refused"
    assert 1 == table.discard([bad.number])
    assert ["k2", "k3"] == bodies(table)
    table.close()


def a_failing_row_is_shown_and_tried_at_once_when_asked(tables: Tables) -> None:
    tables.write("a", "b")
    table = tables.open()
    a, b = table.claim("one", 10, LEASE_MS)
    table.ended("one", [b.number], [Failure(a.number, "every broker is away", 60_000)], [], keeps=True)

    status = table.status()
    assert (1, 1, "every broker is away") == (status.waiting, status.failing, status.reason)
    assert [] == bodies(table)
    assert 1 == table.retry([a.number])
    assert ["a"] == bodies(table)
    assert 0 == table.retry([b.number]), "it was sent"
    table.close()


def making_it_twice_is_once(tables: Tables) -> None:
    table = tables.open()
    table.create()
    tables.write("a")
    table.create()

    assert ["a"] == bodies(table)
    table.close()


def relays_at_once_claim_nothing_twice_and_keep_each_key_s_order(tables: Tables) -> None:
    keys, each = 4, 10
    for number in range(each):
        for key in range(keys):
            tables.write(f"{key} {number}", key=str(key))
    claimed: list[str] = []
    is_over = Event()

    def relay(name: str) -> None:
        table = tables.open()
        while len(claimed) < keys * each and not is_over.is_set():
            rows = table.claim(name, 3, LEASE_MS)
            if not rows:
                time.sleep(0.01)  # so that nobody who has rows waits long for the file
            claimed.extend(row.body.decode() for row in rows)
            table.ended(name, [row.number for row in rows], [], [], keeps=True)
        table.close()

    with ThreadPoolExecutor(3) as threads:
        try:
            for running in [threads.submit(relay, name) for name in ("one", "two", "three")]:
                running.result(PATIENCE_S)
        finally:
            is_over.set()  # where one failed, the others would wait for its rows

    for key in range(keys):
        assert [f"{key} {number}" for number in range(each)] == [body for body in claimed if body[0] == str(key)]


BEHAVIOURS = (
    relays_at_once_claim_nothing_twice_and_keep_each_key_s_order,
    rows_come_in_order_with_all_that_they_hold,
    claimed_rows_are_another_s_when_the_lease_is_over,
    a_key_s_rows_wait_for_those_before_them,
    what_was_sent_is_kept_and_swept,
    what_waits_and_what_is_refused_is_counted,
    without_keeping_what_was_sent_is_gone,
    who_lost_a_claim_changes_nothing,
    a_row_that_was_sent_and_taken_over_holds_its_key_until_it_was_sent_again,
    refused_rows_hold_their_key_until_somebody_decides,
    a_failing_row_is_shown_and_tried_at_once_when_asked,
    making_it_twice_is_once,
)


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tables:
    monkeypatch.setattr(
        of_sqlite, "BUSY_MS", PATIENCE_S * 1000
    )  # how long others have the file is the machine's affair
    path = tmp_path / "shop.db"
    first = SqliteTable(str(path), "outbox")
    first.create()
    first.close()

    def write(sql: str, values: Any) -> None:
        connection = sqlite3.connect(path)
        with connection:
            connection.execute(sql, values)
        connection.close()

    return Tables(lambda: SqliteTable(str(path), "outbox"), write, "qmark")


@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=lambda each: str(each.__name__))
def test_in_sqlite(behaviour: Callable[[Tables], None], tables: Tables) -> None:
    behaviour(tables)


@pytest.fixture(scope="module")
def postgresql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with postgresql_at(tmp_path_factory.mktemp("postgresql")) as url:
        yield url


@pytest.fixture
def tables_there(postgresql: str) -> Iterator[Tables]:
    first = PostgresqlTable(postgresql, "outbox")
    first.create()
    first.close()
    with psycopg.connect(postgresql) as connection:

        def write(sql: str, values: Any) -> None:
            connection.execute(sql, values)
            connection.commit()

        yield Tables(lambda: PostgresqlTable(postgresql, "outbox"), write, "format")
        connection.execute("DROP TABLE outbox")


@pytest.mark.slow
@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=lambda each: str(each.__name__))
def test_in_postgresql(behaviour: Callable[[Tables], None], tables_there: Tables) -> None:
    behaviour(tables_there)


def test_its_clock_is_the_machine_s(tmp_path: Path) -> None:
    table = SqliteTable(str(tmp_path / "shop.db"), "outbox")
    table.create()
    before_ms = int(time.time() * 1000)
    with table._transaction() as connection:
        now_ms = table._now_ms(connection)
    table.close()

    assert before_ms - 5 <= now_ms <= int(time.time() * 1000) + 5


def test_a_file_that_is_not_there_is_no_empty_table(tmp_path: Path) -> None:
    table = SqliteTable(str(tmp_path / "shpo.db"), "outbox")

    with pytest.raises(TableError, match=r"shpo\.db: unable to open database file"):
        table.status()
    assert [] == list(tmp_path.iterdir())


def test_a_table_that_is_not_there_is_named(tmp_path: Path) -> None:
    sqlite3.connect(tmp_path / "shop.db").close()

    with pytest.raises(TableError, match=r"shop\.db: .*(no such table: outbox|unable to open)"):
        SqliteTable(str(tmp_path / "shop.db"), "outbox").status()


def test_after_an_error_it_goes_on_with_a_new_connection(tables: Tables) -> None:
    table = tables.open()
    tables.write("a")
    right, table.now_sql = table.now_sql, "no_such_function()"
    with pytest.raises(TableError, match="no_such_function"):
        table.claim("one", 10, 1_000)

    table.now_sql = right
    assert ["a"] == bodies(table)
    table.close()


def test_it_may_lie_in_a_schema(tmp_path: Path) -> None:
    table = SqliteTable(str(tmp_path / "shop.db"), "main.outbox")
    table.create()
    assert 0 == table.status().waiting
    table.close()
