"""The table in PostgreSQL, by psycopg 3. Claims wait for each other by an advisory lock of the table's own.

`FOR UPDATE SKIP LOCKED` would let two relays claim at once, and one of them the later rows of a key whose earlier ones
the other has just locked: nobody could keep a key's order then.
"""

from __future__ import annotations

from typing import Any, ClassVar
from urllib.parse import urlsplit
from zlib import crc32

from framework_outbox.settings import OutboxMisused
from framework_outbox.table import Table

CONNECT_SECONDS = 10
_LOCKS = 0x6F757462  # ours among the advisory locks of a database


class PostgresqlTable(Table):
    """`database: postgresql://...`."""

    now_sql = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
    types: ClassVar = {
        "id": "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY", "text": "text", "bytes": "bytea", "number": "bigint",
    }  # fmt: skip

    def __init__(self, url: str, name: str) -> None:
        super().__init__(name)
        self._url = url
        self._driver = driver()
        lock = crc32(name.encode()) - (1 << 31)
        self.claim_lock = f"SELECT pg_advisory_xact_lock({_LOCKS}, {lock})"

    def connect(self) -> Any:
        return self._driver.connect(self._url, autocommit=True, connect_timeout=CONNECT_SECONDS)

    def create(self) -> None:
        with self._transaction() as connection:
            connection.execute(self.claim_lock)  # of two that create it at once the second would fail
            self._made(connection)

    def errors(self) -> tuple[type[Exception], ...]:
        return (self._driver.Error, OSError)

    def spelled(self, sql: str) -> str:
        return sql.replace("?", "%s")

    def __str__(self) -> str:
        """Without the password."""
        parts = urlsplit(self._url)
        return f"{parts.scheme}://{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}{parts.path}"


def driver() -> Any:
    """psycopg; ConfigurationError where it is not installed."""
    try:
        import psycopg
    except ImportError as error:
        raise OutboxMisused(
            f"plugins.settings.outbox.database: PostgreSQL needs psycopg ({error}); "
            "pip install 'framework-app-outbox[postgresql]'"
        ) from None
    return psycopg
