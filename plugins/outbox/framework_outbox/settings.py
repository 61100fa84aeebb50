"""`plugins.settings.outbox`."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

from framework.errors import ConfigurationError
from framework.settings.secret import Secret
from framework.settings.units import Duration

_TABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,40}(\.[A-Za-z_][A-Za-z0-9_]{0,40})?")
_SCHEME = re.compile(r"([a-z0-9+.-]+)://", re.IGNORECASE)
_POSTGRESQL = ("postgresql", "postgres")
TABLE = "outbox"
# A row is sent only while its claim has room for one more attempt, and marking it takes a moment, too.
LEASE_TIMES = 2


class OutboxMisused(ConfigurationError):
    """What can be wrong with how the outbox is used."""

    id = "FA-O001"


def checked_table(name: str) -> str:
    """The name, which stands in SQL as it is; ValueError for what is none."""
    if not _TABLE.fullmatch(name):
        raise ValueError(f"table {name!r}: use letters, digits and _, perhaps behind a schema and a point")
    return name


class OutboxSettings(BaseModel):
    """`plugins.settings.outbox`."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    database: Secret = Secret("")
    """Where the table is: a file of SQLite, or a URL such as `postgresql://user@host/shop`. Empty: off."""
    table: str = TABLE
    """The table's name, with its schema if it has one. It is created if it is missing."""
    relay: bool = True
    """Send the rows of the table. false: this application only writes them, and another one sends."""
    interval: Annotated[Duration, Field(ge=10, le=60_000)] = 500
    """How often an idle relay polls. A handler that wrote a row wakes the relay of its own process at once."""
    batch: Annotated[int, Field(ge=1, le=10_000)] = 200
    """Rows per claim."""
    senders: Annotated[int, Field(ge=1, le=1_000)] = 32
    """Messages that are sent at once. Messages with the same key are sent one after the other."""
    timeout: Annotated[Duration, Field(ge=100)] = 10_000
    """How long one attempt to send may take."""
    lease: Duration = 30_000
    """How long a relay keeps the rows it has claimed before another may claim them. At least twice `timeout`."""
    retry_first: Annotated[Duration, Field(ge=10)] = 1_000
    """Delay before a failed row is sent again. It doubles with each failure, up to `retry_max`."""
    retry_max: Annotated[Duration, Field(ge=10)] = 60_000
    """The longest delay between two attempts."""
    keep: Duration = 3_600_000
    """How long sent rows stay in the table, for people to look at. 0s: removed at once."""

    @model_validator(mode="after")
    def _fits(self) -> OutboxSettings:
        checked_table(self.table)
        if self.lease < LEASE_TIMES * self.timeout:
            raise ValueError(
                f"lease ({self.lease} ms) is shorter than {LEASE_TIMES} times timeout ({self.timeout} ms): another "
                "relay would send what is still being sent; raise it, or lower timeout"
            )
        if self.retry_max < self.retry_first:
            raise ValueError("retry_max is shorter than retry_first")
        scheme = _SCHEME.match(self.database.reveal())
        if scheme is not None and scheme[1].lower() not in _POSTGRESQL:
            raise ValueError(f"database: {scheme[1]} is not known; write a file of SQLite, or postgresql://...")
        return self

    @property
    def is_postgresql(self) -> bool:
        return _SCHEME.match(self.database.reveal()) is not None
