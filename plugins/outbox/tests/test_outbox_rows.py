"""The rows that the relay finds: texts, ones that are no message, and old ones."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest

from tests.outbox_desk import Desk, until


def written(desk: Desk, body: object, properties: object = "{}", topic: str = "payments") -> None:
    """As somebody else's SQL does, into columns that SQLite does not check."""
    connection = sqlite3.connect(desk.path)
    with connection:
        connection.execute(
            "INSERT INTO outbox (message_id, topic, body, properties) VALUES ('0A', ?, ?, ?)", (topic, body, properties)
        )
    connection.close()


def test_a_body_of_text_is_sent_as_utf_8(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    written(desk, "t\u00e9a")
    desk.write("bytes")

    async def story() -> None:
        assert (2, 2) == await desk.relay().step()

    desk.play(story)
    assert ["t\u00e9a", "bytes"] == sorted(desk.bodies, reverse=True)


@pytest.mark.parametrize(
    ("body", "properties", "topic", "reason"),
    [
        (17, "{}", "payments", "the body is of type int; write bytes, or text"),
        (b"x", "[]", "payments", "properties are a JSON list; write an object of texts"),
        (b"x", '{"a": 1}', "payments", "the property 'a' is 1; write a text"),
        (b"x", "{", "payments", "Expecting property name"),
        (b"x", "{}", "no such topic!", "no such topic!"),
    ],
)
def test_a_row_that_is_no_message_is_refused_and_holds_up_nobody(
    body: object, properties: str, topic: str, reason: str, tmp_path: Path
) -> None:
    desk = Desk(tmp_path)
    written(desk, body, properties, topic)
    desk.write("right")

    async def story() -> None:
        assert (2, 1) == await desk.relay().step()
        status = desk.table.status()
        assert (1, 1) == (status.sent, status.refused)
        assert reason in status.worst[0].reason

    desk.play(story)
    assert ["right"] == desk.bodies


def test_what_nobody_thought_of_holds_up_only_its_own_row(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.wrong["odd"] = ZeroDivisionError("of a driver")
    desk.write("odd", "right")

    async def story() -> None:
        assert (2, 1) == await desk.relay().step()
        assert "ZeroDivisionError: of a driver" == desk.table.status().reason

    desk.play(story)
    assert ["right"] == desk.bodies


def test_old_rows_are_swept_while_there_is_nothing_to_send(tmp_path: Path) -> None:
    desk = Desk(tmp_path, keep=5_000)
    desk.write("a")

    async def story() -> None:
        relay = desk.relay()
        running = asyncio.get_running_loop().create_task(relay.run())
        await until(lambda: desk.open().status().sent == 1)
        await until(lambda: desk.open().status().sent == 0)
        assert asyncio.get_running_loop().time() >= 5
        relay.stop()
        await running

    desk.play(story)


@pytest.mark.parametrize("properties", ["{", "[1]", "7"])
def test_a_row_that_somebody_else_wrote_wrongly_is_set_aside(properties: str, tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.write("good", "bad")
    connection = sqlite3.connect(desk.path)
    with connection:
        connection.execute("UPDATE outbox SET properties = ? WHERE body = ?", (properties, b"bad"))
    connection.close()

    async def story() -> None:
        assert (2, 1) == await desk.relay().step()
        assert 1 == desk.table.status().refused

    desk.play(story)
    assert ["good"] == desk.bodies
