"""Rows on their way out: what is sent of each, and how a producer of a Spark process reaches the cluster."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import structlog

from framework import Message
from framework.mistakes import MessageWrong
from framework.model.delay_levels import level_for
from framework.model.durations import to_ms
from framework_spark.options import SinkOptions
from framework_spark.survey import warn

ROW = "SPARK_ROW"
NAMED_MAX = 100  # rows of a task that are left out, and named


@dataclass(frozen=True, slots=True)
class Row:
    """What is sent of a row."""

    message: Message
    delay_level: int


class Outgoing:
    """The rows of a task as messages, in their order; and how many there were."""

    def __init__(self, options: SinkOptions, batches: Iterator[pa.RecordBatch], prefix: str) -> None:
        self._options, self._batches, self._prefix = options, batches, prefix
        self.sent = self.left_out = 0
        """Those without a body are left out, where the options say so."""

    def __iter__(self) -> Iterator[Row]:
        named: list[str] = []
        for batch in self._batches:
            for values in batch.rename_columns([name.lower() for name in batch.schema.names]).to_pylist():
                name = f"{self._prefix}/{self.sent + self.left_out}"
                if self._options.skips_empty and not values["body"]:
                    self.left_out += 1
                    named += [name] if len(named) < NAMED_MAX else []
                    continue
                self.sent += 1
                yield row_of(values, self._options, name)
        if named:
            more = f" and {self.left_out - len(named)} more" if self.left_out > len(named) else ""
            warn(f"rows without a body, left out as emptyBody=skip says: {', '.join(named)}{more}")


def quiet_logs() -> None:
    """Only what is wrong belongs into the log of a worker of Spark's."""
    if not structlog.is_configured():
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))


def connection_of(options: SinkOptions) -> dict[str, Any]:
    """How a Producer reaches the cluster; the credentials are read here and now."""
    settings = options.settings
    return {
        "name_servers": settings.name_servers, "credentials": settings.resolve_credentials(), "tls": settings.tls
    }  # fmt: skip


def row_of(values: dict[str, Any], options: SinkOptions, name: str) -> Row:
    """A row as a message, which carries its name; ConfigurationError where it cannot be one."""
    body, topic = values["body"], values.get("topic") or options.topic
    if not body:
        raise MessageWrong(
            f"sink, row {name}: body is {'empty' if body is not None else 'null'}, and brokers refuse that; option "
            "emptyBody=skip leaves such rows out"
        )
    if not topic:
        raise MessageWrong(f"sink, row {name}: topic is null, and option topic is not given")
    properties = {key: value for key, value in values.get("properties") or () if value is not None}
    sharding = values.get("sharding")
    properties[ROW] = name
    message = Message(
        topic, body, tags=values.get("tag"), keys=values.get("key") or (), properties=properties,
        order_key=sharding or None,
    )  # fmt: skip
    return Row(message, _delay_level(values.get("delay"), name))


def _delay_level(delay: int | str | None, name: str) -> int:
    """A level as it is, a duration as the shortest level that is not shorter."""
    if not delay:
        return 0
    if isinstance(delay, int):
        return delay
    try:
        return level_for(to_ms(delay))
    except ValueError as error:
        raise MessageWrong(f"sink, row {name}: delay {delay!r}: write a level, or a duration such as 90s") from error
