"""What tests of the outbox's relay share: a table, its writer, and a broker that answers as it is told."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from framework_outbox.relay import Relay
from framework_outbox.settings import OutboxSettings
from framework_outbox.sqlite import SqliteTable
from framework_outbox.writing import Outbox

from framework import Message
from tests.services.parts import play


class Desk:
    """A table, its writer, and a broker that answers as it is told; time is the loop's."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.path = folder / "shop.db"
        self.settings = OutboxSettings(database=str(self.path), **settings)  # type: ignore[arg-type]  # it is checked
        self.sent: list[tuple[str, str | None]] = []
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

    def relay(
        self, name: str = "one", table: SqliteTable | None = None,
        in_thread: Callable[[Callable[[], Any]], Awaitable[Any]] | None = None,
    ) -> Relay:  # fmt: skip
        async def at_once(job: Callable[[], Any]) -> Any:
            return job()

        loop = asyncio.get_running_loop()
        return Relay(
            table or self.table, self.settings, name, send=self._send,
            in_thread=in_thread or at_once, monotonic=loop.time,
        )  # fmt: skip

    async def _send(self, message: Message) -> None:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await asyncio.sleep(self.takes_seconds)
            body = message.body.decode()
            if body in self.wrong:
                raise self.wrong[body]
            self.sent.append((body, message.order_key))
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
