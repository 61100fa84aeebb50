"""Outbox: writes a handler's messages, in the handler's own transaction.

It executes one INSERT on the connection that it gets, and commits nothing. It knows no relay: a process that sends
nothing, such as a web application, may make one itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from framework.errors import nearest, shorten
from framework.model.message import Message
from framework_outbox.rows import values_of
from framework_outbox.settings import TABLE, OutboxMisused, checked_table

Style = Literal["qmark", "format", "numeric", "named"]

_COLUMNS = ("message_id", "topic", "ordering_key", "body", "properties")
_MARKS: Mapping[str, Sequence[str]] = {
    "qmark": ("?",) * len(_COLUMNS),
    "format": ("%s",) * len(_COLUMNS),
    "numeric": tuple(f"${at}" for at in range(1, len(_COLUMNS) + 1)),
    "named": tuple(f":{name}" for name in _COLUMNS),
}
_PLAIN = {"sqlite3": "qmark", "psycopg": "format", "psycopg2": "format"}
_AWAITED = {"aiosqlite": "qmark", "psycopg": "format", "asyncpg": "numeric"}
_IN_TRANSACTION = "begin a transaction first, so that the message is written with what it tells of, or not at all"


class Outbox:
    """Writes messages into the table of this name."""

    def __init__(self, table: str = TABLE) -> None:
        try:
            self.table = checked_table(table)
        except ValueError as error:
            raise OutboxMisused(f"outbox: {error}") from None

    def add(self, connection: Any, message: Message, *, key: str | None = None) -> str:
        """Write the message by a connection of sqlite3, psycopg or psycopg2; answers its message id.

        It is sent once the transaction is committed. Messages of one `key` are sent in the order of writing, and to the
        same queue.
        """
        style = _style(connection, _PLAIN, "add")
        _check_transaction(connection)
        sql, values = self.statement(message, key=key, style=style)
        if style == "format" and not hasattr(connection, "execute"):  # psycopg2
            with connection.cursor() as cursor:
                cursor.execute(sql, values)
        else:
            connection.execute(sql, values)
        return str(values[0])

    async def add_async(self, connection: Any, message: Message, *, key: str | None = None) -> str:
        """The same by an async connection: of aiosqlite, psycopg or asyncpg."""
        style = _style(connection, _AWAITED, "add_async")
        _check_transaction(connection)
        sql, values = self.statement(message, key=key, style=style)
        if style == "numeric":
            await connection.execute(sql, *values)
        else:
            await connection.execute(sql, values)
        return str(values[0])

    def statement(self, message: Message, *, key: str | None = None, style: Style = "qmark") -> tuple[str, Any]:
        """The INSERT and its values, for whatever executes it: SQLAlchemy's `text()` takes `style="named"`."""
        if style not in _MARKS:
            raise OutboxMisused(f"outbox: style={shorten(style)}; write one of: {', '.join(_MARKS)}")
        values = values_of(message, key)
        sql = f"INSERT INTO {self.table} ({', '.join(_COLUMNS)}) VALUES ({', '.join(_MARKS[style])})"  # noqa: S608 - a checked name
        return sql, dict(zip(_COLUMNS, values, strict=True)) if style == "named" else values

    def __repr__(self) -> str:
        return f"<Outbox {self.table}>"


def _style(connection: Any, known: Mapping[str, str], name: str) -> Any:
    """By the driver that made the connection, or that its class is of."""
    for kind in type(connection).__mro__:
        driver = kind.__module__.partition(".")[0]
        if driver in known:
            return known[driver]
    driver = type(connection).__module__.partition(".")[0]
    raise OutboxMisused(
        f"outbox.{name}: {shorten(connection)} is of no driver that is known here{nearest(driver, known)} "
        f"({', '.join(known)}); execute what outbox.statement(message) answers yourself"
    )


def _check_transaction(connection: Any) -> None:
    """A connection in autocommit and outside of a transaction would commit the message alone."""
    if hasattr(connection, "in_transaction"):  # sqlite3 and aiosqlite
        is_alone = not connection.in_transaction and (
            connection.isolation_level is None or getattr(connection, "autocommit", None) is True
        )
    elif hasattr(connection, "is_in_transaction"):  # asyncpg
        is_alone = not connection.is_in_transaction()
    else:
        info = getattr(connection, "info", None)
        is_alone = bool(getattr(connection, "autocommit", False)) and getattr(info, "transaction_status", 0) == 0
    if is_alone:
        raise OutboxMisused(f"outbox: the connection is in autocommit; {_IN_TRANSACTION}")
