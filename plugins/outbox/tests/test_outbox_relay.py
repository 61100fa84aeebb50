"""The relay, in virtual time: what it sends in which order, and what it does when something is wrong."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from framework_outbox.relay import Relay
from framework_outbox.settings import OutboxSettings
from framework_outbox.sqlite import SqliteTable
from framework_outbox.table import TableError
from framework_outbox.writing import Outbox
from structlog.testing import capture_logs

from framework import Message
from framework.errors import BrokerUnreachable, ConfigurationError, Refused
from framework.model.queue import MessageQueue
from tests.services.parts import play

QUEUES = [MessageQueue("payments", "broker-a", number) for number in range(4)]


class Desk:
    """A table, its writer, and a broker that answers as it is told; time is the loop's."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.path = folder / "shop.db"
        self.settings = OutboxSettings(database=str(self.path), **settings)  # type: ignore[arg-type]  # it is checked
        self.sent: list[tuple[str, MessageQueue | None]] = []
        self.ids: list[str] = []
        self.wrong: dict[str, Exception] = {}
        """What sending a body raises."""
        self.takes_seconds = 0.01
        self.under_way = self.most = 0
        self.tables: list[SqliteTable] = []
        self.table = self.open()
        self.table.create()

    def open(self) -> SqliteTable:
        desk = self

        class AtLoopTime(SqliteTable):
            def _now_ms(self, connection: Any) -> int:
                return int(asyncio.get_event_loop().time() * 1000) if desk.is_running else 0

        table = AtLoopTime(str(self.path), "outbox")
        self.tables.append(table)
        return table

    is_running = False

    def write(self, *bodies: str, key: str | None = None) -> None:
        connection = sqlite3.connect(self.path)
        with connection:
            for body in bodies:
                Outbox().add(connection, Message("payments", body), key=key)
        connection.close()

    def relay(self, name: str = "one", table: SqliteTable | None = None) -> Relay:
        async def queues(_: str) -> Sequence[MessageQueue]:
            return QUEUES

        async def at_once(job: Callable[[], Any]) -> Any:
            return job()

        loop = asyncio.get_running_loop()
        return Relay(
            table or self.table, self.settings, name, send=self._send, queues=queues, in_thread=at_once,
            monotonic=loop.time,
        )  # fmt: skip

    async def _send(self, message: Message, queue: MessageQueue | None) -> None:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await asyncio.sleep(self.takes_seconds)
            body = message.body.decode()
            if body in self.wrong:
                raise self.wrong[body]
            self.sent.append((body, queue))
            self.ids.append(message.message_id)
        finally:
            self.under_way -= 1

    def play(self, story: Callable[[], Awaitable[Any]]) -> Any:
        async def told() -> Any:
            self.is_running = True
            return await story()

        try:
            return play(told)
        finally:
            self.is_running = False
            for table in self.tables:
                table.close()

    @property
    def bodies(self) -> list[str]:
        return [body for body, _ in self.sent]


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - of another thread or file, nobody tells
        await asyncio.sleep(0.05)


def test_what_was_written_is_sent_and_marked(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.write(*map(str, range(50)))

    async def story() -> None:
        relay = desk.relay()
        assert (50, 50) == await relay.step()
        assert (0, 0) == await relay.step()
        assert 50 == desk.table.status().sent == relay.sent

    desk.play(story)
    assert sorted(map(str, range(50))) == sorted(desk.bodies)
    assert 32 == desk.most, "as many at once as there are senders"


def test_a_key_s_messages_follow_each_other_to_one_queue(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    for number in range(5):
        for key in ("K", "L", "M"):
            desk.write(f"{key}{number}", key=key)

    async def story() -> None:
        assert (15, 15) == await desk.relay().step()

    desk.play(story)
    assert 3 == desk.most
    for key, queue in (("K", 3), ("L", 0), ("M", 1)):  # as "K".hashCode() % 4 in Java
        mine = [each for each in desk.sent if each[0].startswith(key)]
        assert [(f"{key}{number}", QUEUES[queue]) for number in range(5)] == mine


def test_a_failing_message_holds_its_key_and_nobody_else(tmp_path: Path) -> None:
    desk = Desk(tmp_path, retry_first=1_000, retry_max=4_000)
    desk.write("k1", "k2", key="K")
    desk.write("free")
    desk.wrong["k1"] = BrokerUnreachable("broker-a is away")
    tried: list[float] = []

    async def story() -> None:
        loop, relay = asyncio.get_running_loop(), desk.relay()
        for _ in range(4):
            while not (await relay.step())[0]:  # noqa: ASYNC110 - time must pass
                await asyncio.sleep(0.1)
            tried.append(loop.time())
        del desk.wrong["k1"]
        while "k2" not in desk.bodies:
            await relay.step()
            await asyncio.sleep(0.1)

    desk.play(story)
    assert ["free", "k1", "k2"] == desk.bodies
    pauses = [round(later - earlier) for earlier, later in pairwise(tried)]
    assert [1, 2, 4] == pauses


def test_a_message_that_no_broker_takes_is_set_aside(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.write("bad", "behind", key="K")
    desk.write("good")
    desk.wrong["bad"] = Refused(13, "illegal", request="send", peer="broker-a")

    async def story() -> None:
        with capture_logs() as logs:
            relay = desk.relay()
            assert (3, 1) == await relay.step()
            assert (0, 0) == await relay.step()
        (worst,) = desk.table.status().worst
        assert ("K", 1) == (worst.key, worst.behind)
        assert ["outbox message refused"] == [each["event"] for each in logs]
        assert 1 == desk.table.discard([worst.number])
        assert (1, 1) == await relay.step()

    desk.play(story)
    assert ["good", "behind"] == desk.bodies


def test_a_mistake_is_held_against_a_message_only_when_others_go_through(tmp_path: Path) -> None:
    """Before that it may be the cluster's settings that are wrong, and all messages would be refused for it."""
    desk = Desk(tmp_path, retry_first=1_000)
    desk.write("odd")
    desk.wrong["odd"] = ConfigurationError("message to payments: property PGROUP is RocketMQ's own")

    async def story() -> None:
        relay = desk.relay()
        assert (1, 0) == await relay.step()
        assert (1, 0) == ((status := desk.table.status()).waiting, status.refused)
        desk.write("good")
        assert (1, 1) == await relay.step()
        await asyncio.sleep(1)
        assert (1, 0) == await relay.step()
        assert 1 == desk.table.status().refused

    desk.play(story)


def test_a_send_without_an_answer_is_given_up_and_tried_again_with_the_same_id(tmp_path: Path) -> None:
    desk = Desk(tmp_path, timeout=1_000, lease=10_000, retry_first=100)
    desk.write("a")
    desk.takes_seconds = 5

    async def story() -> None:
        relay = desk.relay()
        (row,) = [desk.table.claim("probe", 1, 0)[0].message_id]
        assert (1, 0) == await relay.step()
        assert "no answer within 1000 ms" == desk.table.status().reason
        desk.takes_seconds = 0
        await asyncio.sleep(0.1)
        assert (1, 1) == await relay.step()
        assert [row] == desk.ids

    desk.play(story)


def test_nothing_is_sent_whose_claim_might_run_out_before_the_answer(tmp_path: Path) -> None:
    """Two of a key, and each takes nearly its time-out: the second is left for a fresh claim."""
    desk = Desk(tmp_path, timeout=1_000, lease=2_000)
    desk.write("k1", "k2", "k3", key="K")
    desk.takes_seconds = 0.9

    async def story() -> None:
        relay = desk.relay()
        assert (3, 2) == await relay.step()
        assert 1 == desk.table.status().waiting
        assert (1, 1) == await relay.step()

    desk.play(story)
    assert ["k1", "k2", "k3"] == desk.bodies


def test_two_relays_send_nothing_twice(tmp_path: Path) -> None:
    desk = Desk(tmp_path, batch=3)
    for number in range(20):
        desk.write(f"{number}", key=None if number % 2 else str(number % 3))

    async def story() -> None:
        relays = [desk.relay(), desk.relay("two", desk.open())]
        running = [asyncio.get_running_loop().create_task(relay.run()) for relay in relays]
        await until(lambda: len(desk.sent) >= 20)
        for relay in relays:
            relay.stop()
        await asyncio.gather(*running)
        assert all(relay.sent for relay in relays)

    desk.play(story)
    assert sorted(map(str, range(20))) == sorted(desk.bodies)


def test_one_that_is_cut_off_gives_back_what_it_had_claimed(tmp_path: Path) -> None:
    """The drain limit is over: nobody should wait for a claim that nobody holds; what was sent is noted first."""
    desk = Desk(tmp_path, senders=1)
    desk.write("quick")
    desk.write("slow", "behind", key="K")
    desk.takes_seconds = 1.0

    async def story() -> None:
        running = asyncio.get_running_loop().create_task(desk.relay().run())
        await until(lambda: desk.bodies == ["quick"] and desk.under_way == 1)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert running.cancelled()
        rows = desk.open().claim("another", 10, 30_000)
        assert [b"slow", b"behind"] == [row.body for row in rows]
        assert 1 == desk.table.status().sent

    desk.play(story)


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


def test_it_looks_again_each_interval_and_at_once_when_it_is_woken(tmp_path: Path) -> None:
    desk = Desk(tmp_path, interval=10_000)

    async def story() -> None:
        loop, relay = asyncio.get_running_loop(), desk.relay()
        running = loop.create_task(relay.run())
        await asyncio.sleep(1)
        desk.write("woken")
        relay.wake()
        await until(lambda: desk.bodies == ["woken"])
        woken_at = loop.time()
        desk.write("found")
        await until(lambda: desk.bodies == ["woken", "found"])
        assert woken_at < 2
        assert 5 < loop.time() - woken_at <= 10.1
        relay.stop()
        await running

    desk.play(story)


def test_a_database_that_is_away_is_said_once_and_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(tmp_path)
    desk.write("a")
    claim = desk.table.claim
    tries = 0

    def failing(*arguments: Any) -> Any:
        nonlocal tries
        tries += 1
        if tries <= 3:
            raise TableError("shop.db: database is locked")
        return claim(*arguments)

    monkeypatch.setattr(desk.table, "claim", failing)

    async def story() -> None:
        relay = desk.relay()
        running = asyncio.get_running_loop().create_task(relay.run())
        await until(lambda: bool(desk.sent))
        relay.stop()
        await running

    with capture_logs() as logs:
        desk.play(story)
    assert [
        ("outbox table unavailable", "shop.db: database is locked"),
        ("outbox recovered", None),
    ] == [(each["event"], each.get("reason")) for each in logs]


def test_stopping_ends_what_is_under_way_and_leaves_the_rest(tmp_path: Path) -> None:
    desk = Desk(tmp_path, senders=1)
    desk.write("a", "b", "c")

    async def story() -> None:
        relay = desk.relay()
        running = asyncio.get_running_loop().create_task(relay.run())
        await asyncio.sleep(0.005)
        relay.stop()
        await running
        status = desk.open().status()
        assert (2, 1) == (status.waiting, status.sent)
        assert 2 == len(desk.open().claim("two", 10, 1_000)), "at once, not when a lease is over"

    desk.play(story)


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


def test_whatever_fails_it_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(tmp_path)
    desk.write("a")
    claim, tries = desk.table.claim, iter([KeyError("surprise")])

    def failing(*arguments: Any) -> Any:
        for error in tries:
            raise error
        return claim(*arguments)

    monkeypatch.setattr(desk.table, "claim", failing)

    async def story() -> None:
        relay = desk.relay()
        running = asyncio.get_running_loop().create_task(relay.run())
        await until(lambda: bool(desk.sent))
        relay.stop()
        await running

    with capture_logs() as logs:
        desk.play(story)
    assert ["outbox poll failed"] == [each["event"] for each in logs]
