"""Messages as an Arrow table, and a table of verdicts as outcomes. Pure: it knows no Spark and no session.

The table has the columns of the source (`schema.py`), so that a handler's function and a query's look alike. A retried
message has the address of its copy on the retry topic: the four columns identify it in any batch.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from framework.errors import shorten
from framework.model.message import Message
from framework.model.outcome import DeadLetter, Outcome, RetryLater
from framework_spark.schema import SCHEMA

ADDRESS = ("topic", "broker", "queueId", "offset")
Address: TypeAlias = tuple[Any, ...]
"""What these columns have."""
VERDICTS = ("ok", "retry", "dead_letter")

SHAPE = to_arrow_schema(SCHEMA, timezone="UTC")
"""A handler's frame has the columns of the source."""


def table_of(messages: Sequence[Message]) -> pa.Table:
    """One row a message, in their order."""
    columns: dict[str, list[Any]] = {name: [] for name in SHAPE.names}
    for message in messages:
        queue, properties = message.queue, message.properties
        row = (
            queue.topic, queue.broker, queue.number, message.queue_offset, properties.get("KEYS"),
            properties.get("TAGS"), message.body, message.stored_ms * 1000, message.born_ms * 1000,
            message.message_id, message.attempt - 1, list(properties.items()),
        )  # fmt: skip
        for column, value in zip(columns.values(), row, strict=True):
            column.append(value)
    return pa.table([pa.array(columns[field.name], field.type) for field in SHAPE], schema=SHAPE)


def outcomes_of(verdicts: pa.Table, messages: Sequence[Message]) -> list[Outcome | None]:
    """One outcome a message. Messages without a row are well. ValueError for rows that fit no message of the batch."""
    return outcomes_at(verdicts, [(*message.queue, message.queue_offset) for message in messages])


def outcomes_at(verdicts: pa.Table, addresses: Sequence[Address]) -> list[Outcome | None]:
    """The same, of messages that are known by their addresses alone."""
    found = by_address(verdicts)
    if strangers := found.keys() - set(addresses):
        raise stranger(strangers)
    return [found.get(address) for address in addresses]


def stranger(addresses: Collection[Address]) -> ValueError:
    """Verdicts fit no message of the batch."""
    more = f" (and {len(addresses) - 1} more)" if len(addresses) > 1 else ""
    return ValueError(f"verdict for {min(addresses, key=str)}, which is no message of the batch{more}")


def by_address(verdicts: pa.Table) -> dict[Address, Outcome | None]:
    """What becomes of which messages. ValueError for rows that are no verdicts."""
    missing = [name for name in (*ADDRESS, "verdict") if name not in verdicts.column_names]
    if missing:
        raise ValueError(
            f"the frame that the handler returned has no column {missing[0]}; verdicts have {', '.join(ADDRESS)}, "
            "verdict, and perhaps reason"
        )
    found: dict[Address, Outcome | None] = {}
    for verdict in verdicts.to_pylist():
        address = tuple(verdict[name] for name in ADDRESS)
        outcome = _outcome(verdict["verdict"], verdict.get("reason"))
        before = found.get(address)
        found[address] = before if isinstance(before, DeadLetter) else outcome or before  # the graver one counts
    return found


def _outcome(verdict: object, reason: object) -> Outcome | None:
    match verdict:
        case "ok" | None:
            return None
        case "retry":
            return RetryLater(reason=str(reason or ""))
        case "dead_letter":
            return DeadLetter(str(reason or ""))
    raise ValueError(f"verdict {shorten(verdict)}: write one of {', '.join(VERDICTS)}")
