"""What a handler writes, by whose connection, and under which message id."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from framework_outbox import Outbox
from framework_outbox.ids import running
from framework_outbox.sqlite import SqliteTable

from framework import Delivery, Message
from framework.errors import ConfigurationError
from framework.model.queue import MessageQueue

BORN_MS = 1_700_000_000_000
PAID = Message("payments", b"paid", keys=("4711",), tags="eu", properties={"by": "card"})


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    table = SqliteTable(str(tmp_path / "shop.db"), "outbox")
    table.create()
    table.close()
    connection = sqlite3.connect(tmp_path / "shop.db")
    yield connection
    connection.close()


def delivery(message_id: str = "A1", group: str = "billing") -> Delivery:
    queue = MessageQueue("orders", "broker-a", 0)
    return Delivery(group, Message("orders", b"{}", queue=queue, message_id=message_id, born_ms=BORN_MS), 0.0)


def count_in(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM outbox").fetchone()[0])


def test_a_message_is_written_with_its_transaction_or_not_at_all(connection: sqlite3.Connection) -> None:
    outbox = Outbox()

    def decline() -> None:
        with connection:
            outbox.add(connection, PAID)
            raise RuntimeError("the card was declined")

    with pytest.raises(RuntimeError):
        decline()
    assert 0 == count_in(connection)

    with connection:
        message_id = outbox.add(connection, PAID, key="4711")
    (row,) = connection.execute("SELECT message_id, topic, ordering_key, body, state FROM outbox").fetchall()
    assert (message_id, "payments", "4711", b"paid", "waiting") == row


def test_a_connection_in_autocommit_is_refused_until_a_transaction_has_begun(tmp_path: Path) -> None:
    table = SqliteTable(str(tmp_path / "shop.db"), "outbox")
    table.create()
    table.close()
    connection = sqlite3.connect(tmp_path / "shop.db", isolation_level=None)

    with pytest.raises(ConfigurationError, match="the connection is in autocommit; begin a transaction first"):
        Outbox().add(connection, PAID)
    connection.execute("BEGIN")
    Outbox().add(connection, PAID)
    connection.execute("COMMIT")

    assert 1 == count_in(connection)
    connection.close()


def test_a_connection_of_no_known_driver_is_told_the_way_out() -> None:
    with pytest.raises(ConfigurationError, match=r"of no driver that is known here.*outbox.statement\(message\)"):
        Outbox().add(object(), PAID)


@pytest.mark.parametrize(
    ("style", "marks"),
    [
        ("qmark", "(?, ?, ?, ?, ?)"),
        ("format", "(%s, %s, %s, %s, %s)"),
        ("numeric", "($1, $2, $3, $4, $5)"),
        ("named", "(:message_id, :topic, :ordering_key, :body, :properties)"),
    ],
)
def test_the_statement_is_spelled_as_its_driver_takes_it(style: Any, marks: str) -> None:
    sql, values = Outbox("shop.outbox").statement(PAID, style=style)

    assert f"INSERT INTO shop.outbox (message_id, topic, ordering_key, body, properties) VALUES {marks}" == sql
    assert b"paid" == (values["body"] if style == "named" else values[3])


class Asyncpg:
    """What asyncpg's connection has of it."""

    def __init__(self, *, is_in_transaction: bool) -> None:
        self._is_in, self.executed = is_in_transaction, list[tuple[Any, ...]]()

    def is_in_transaction(self) -> bool:
        return self._is_in

    async def execute(self, sql: str, *values: object) -> None:
        self.executed.append((sql, *values))


def test_asyncpg_is_given_values_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Asyncpg, "__module__", "asyncpg.connection")
    connection = Asyncpg(is_in_transaction=True)

    message_id = asyncio.run(Outbox().add_async(connection, PAID))

    ((sql, *values),) = connection.executed
    assert "$5" in sql
    assert [message_id, "payments", None, b"paid"] == values[:4]
    with pytest.raises(ConfigurationError, match="autocommit"):
        asyncio.run(Outbox().add_async(Asyncpg(is_in_transaction=False), PAID))


@pytest.mark.parametrize(
    ("message", "key", "reason"),
    [
        (Message("no topic", b"x"), None, "topic 'no topic'"),
        (Message("payments", b""), None, "the body is empty"),
        (Message("payments", b"x" * (4 * 1024 * 1024 + 1)), None, "a body of 4194305 bytes exceeds the limit"),
        (Message("payments", b"x", properties={"by": ""}), None, "property 'by'='': must not be empty"),
        (Message("rmq_sys_timer", b"x"), None, "topic rmq_sys_timer: reserved by RocketMQ"),
        (Message("payments", b"x", properties={"TRAN_MSG": "true"}), None, "property TRAN_MSG is RocketMQ's own"),
        (Message("payments", b"x", properties={"DELAY": "10s"}), None, "property DELAY='10s': write the number"),
        (Message("payments", b"x", properties={"by": "a\x02"}), None, "property 'by'='a\\x02' holds \\x01 or \\x02"),
        (Message("payments", b"x", properties={"by": "\ud83d"}), None, "property 'by' holds a lone surrogate"),
        (Message("payments", b"x", properties={"by": "ä" * 16_200}), None, "exceed the 32767"),
        (Message("payments", b"x"), "a\x01", "'__SHARDINGKEY'='a\\x01' holds \\x01"),
        (Message("payments", b"x"), "k" * 32_300, "exceed the 32767"),
        (Message("payments", b"x"), "", "key='': write a text, or None"),
    ],
)
def test_what_no_broker_would_take_fails_where_it_is_written(message: Message, key: str | None, reason: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        Outbox().statement(message, key=key)
    assert reason in str(raised.value)


@pytest.mark.parametrize(("message", "key"), [("payments", None), (None, None), ({}, None), (PAID, 5), (PAID, b"k")])
def test_what_is_of_another_type_is_said(message: Any, key: Any) -> None:
    with pytest.raises(TypeError, match=r"outbox: .*(give a Message\(topic, body\)|write a text, or None)"):
        Outbox().statement(message, key=key)


def test_a_message_s_body_may_be_a_dict() -> None:
    assert b'{"number":1}' == Outbox().statement(Message("payments", {"number": 1}))[1][3]


def test_a_table_s_name_is_a_name() -> None:
    with pytest.raises(ConfigurationError, match=r"table 'outbox; DROP': use letters"):
        Outbox("outbox; DROP")


# Message ids


def ids_of(*messages: Message, of: Delivery) -> list[str]:
    with running(of, lambda: None):
        return [Outbox().statement(message)[1][0] for message in messages]


def test_a_handler_that_runs_again_writes_the_same_ids() -> None:
    other = Message("payments", b"refunded")

    first = ids_of(PAID, PAID, other, of=delivery())

    assert first == ids_of(PAID, PAID, other, of=delivery())
    assert 3 == len(set(first)), "the second of two that are alike is another message"


@pytest.mark.parametrize("of", [delivery("A2"), delivery(group="shipping")])
def test_ids_differ_between_messages_and_groups(of: Delivery) -> None:
    assert ids_of(PAID, of=delivery()) != ids_of(PAID, of=of)


def test_what_is_written_is_part_of_the_id() -> None:
    """A handler that decides otherwise the second time tells something new, which must not be taken for a repeat."""
    unlike = Message("payments", b"paid", keys=("4711",), tags="us", properties={"by": "card"})

    assert 2 == len({*ids_of(PAID, of=delivery()), *ids_of(unlike, of=delivery())})


def test_an_id_tells_administrators_tools_when_it_was_made() -> None:
    """As MessageClientIDSetter.getNearlyTimeFromID reads it: milliseconds since the month began, in bytes 10 to 13."""
    (message_id,) = ids_of(PAID, of=delivery())

    assert 32 == len(message_id)
    november = 1_698_796_800_000
    assert BORN_MS - november == int.from_bytes(bytes.fromhex(message_id)[10:14])


def test_a_message_s_own_id_stays() -> None:
    assert ["MINE"] == ids_of(Message("payments", b"x", message_id="MINE"), of=delivery())


def test_outside_of_handlers_and_in_batches_ids_are_new() -> None:
    outside = {Outbox().statement(PAID)[1][0] for _ in range(2)}
    in_batches = set()
    for _ in range(2):
        with running(delivery(), lambda: None), running(delivery("A2"), lambda: None):
            in_batches.add(Outbox().statement(PAID)[1][0])

    assert 4 == len(outside | in_batches)


def test_who_wrote_tells_when_its_run_is_over() -> None:
    heard: list[str] = []

    with running(delivery(), lambda: heard.append("wrote")):
        pass
    assert [] == heard
    with running(delivery(), lambda: heard.append("wrote")):
        Outbox().statement(PAID)
        assert [] == heard
    assert ["wrote"] == heard
