"""The whole outbox on a real PostgreSQL: handlers' transactions, relays of several workers, kills and clean stops.

`make slow PART=postgresql`; the table alone is tried there by `test_outbox_table.py`.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psycopg
import pytest

from framework.broker.store.topics import Topic
from framework.reading import Reader, ReaderSettings, decode_properties
from tests.cli.processes import Command, command
from tests.postgresql import postgresql_at
from tests.reading.threads import texts, thread_box

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SHOP = """
from collections.abc import Iterator

import psycopg
from framework_outbox import Outbox, outbox  # noqa: F401 - handlers are given it by its name

from framework import Message, consumer, resource

DATABASE = "{url}"


@resource(scope="message")
def transaction() -> Iterator[psycopg.Connection]:
    with psycopg.connect(DATABASE) as connection:  # commits, or rolls back where the handler raised
        yield connection


@consumer("orders", "invoicing")
def invoice(order: str, transaction: psycopg.Connection, outbox: Outbox) -> None:
    transaction.execute("INSERT INTO invoices VALUES (%s) ON CONFLICT DO NOTHING", (order,))
    outbox.add(transaction, Message("invoices", order), key=f"customer {{int(order[1:]) % 5}}")
"""
SETTINGS = """
app: {{name: shop, handlers: [shop]}}
consumers: {{invoicing: {{start: first}}}}
plugins:
  settings: {{outbox: {{database: "{url}", timeout: 500ms, lease: 1s, interval: 50ms, batch: 20, senders: 4}}}}
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with postgresql_at(tmp_path_factory.mktemp("postgresql")) as where:
        with psycopg.connect(where) as connection:
            connection.execute("CREATE TABLE invoices (number TEXT PRIMARY KEY)")
        yield where


def until(url: str, question: str, running: Command) -> None:
    def holds() -> object:
        try:
            return connection.execute(question).fetchall()[0][0]
        except psycopg.errors.UndefinedTable:
            return None  # no relay has made it yet

    with psycopg.connect(url, autocommit=True) as connection:
        running.wait_until(holds, question)


@pytest.mark.parametrize("workers", [(), ("--workers", "2")], ids=["one process", "two workers"])
def test_with_postgresql_nothing_is_lost_and_repeats_have_the_same_id(
    workers: tuple[str, ...], tmp_path: Path, url: str
) -> None:
    (tmp_path / "shop.py").write_text(SHOP.format(url=url))
    (tmp_path / "framework-app.yaml").write_text(SETTINGS.format(url=url))
    kills, each = 3, 30
    with psycopg.connect(url) as connection:
        connection.execute("DROP TABLE IF EXISTS outbox")
        connection.execute("TRUNCATE invoices")
    with thread_box() as box:
        for node in box.broker.nodes:
            for topic in ("orders", "invoices"):
                box.call(partial(node.rules.add, Topic(name=topic, read_queues=4, write_queues=4)))
        run = ("run", "--name-server", box.address, *workers)
        for kill in range(kills):
            box.send("orders", texts("orders", each, start=kill * each))
            with command(*run, folder=tmp_path) as running:
                until(url, f"SELECT count(*) > {kill * each + 5 + 7 * kill} FROM invoices", running)
                if kill == 1:  # once in order, in the middle of it: no claim stays behind
                    assert 0 == running.end()
                    with psycopg.connect(url) as connection:
                        claims = connection.execute(
                            "SELECT count(*) FROM outbox WHERE claimed_by IS NOT NULL"
                        ).fetchone()
                    assert (0,) == claims
                else:
                    running.signal_group(signal.SIGKILL)
                    running.process.wait()
        with command(*run, folder=tmp_path) as running:
            running.until("ready: ")
            until(url, f"SELECT count(*) = {kills * each} FROM invoices", running)
            until(url, "SELECT count(*) = 0 FROM outbox WHERE state <> 'sent'", running)
            assert 0 == running.end()
        with Reader(ReaderSettings((box.address,))) as reader:
            queues = [
                [
                    (str(body or b"", "utf-8"), decode_properties(written)["UNIQ_KEY"])
                    for columns in reader.read(queue, 0, reader.max_offset(queue))
                    for body, written in zip(columns.bodies, columns.properties, strict=True)
                ]
                for queue in reader.queues("invoices")
            ]

    stored = [row for queue in queues for row in queue]
    assert {f"m{number}" for number in range(kills * each)} == {body for body, _ in stored}, "none is lost"
    assert kills * each == len({message_id for _, message_id in stored}), "a repeat has its first's id"
    with psycopg.connect(url) as connection:
        for customer in range(5):
            key = f"customer {customer}"
            rows = connection.execute("SELECT body FROM outbox WHERE ordering_key = %s ORDER BY id", (key,)).fetchall()
            written = list(dict.fromkeys(bytes(body).decode() for (body,) in rows))
            mine = [list(dict.fromkeys(body for body, _ in queue if body in written)) for queue in queues]
            # Two transactions at once may commit in another order than their rows have numbers: see the README.
            assert [sorted(written)] == [sorted(found) for found in mine if found], "each key has one queue"
