"""Rows on their way out: what is sent of each, and how a producer of a Spark process reaches the cluster."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import structlog

from framework import Message
from framework.errors import ConfigurationError, shorten
from framework.mistakes import MessageWrong
from framework.model.delay_levels import DELAYS_MS, LEVEL_MAX, level_for
from framework.model.durations import to_ms, to_text
from framework.model.message import DELAY_LEVEL
from framework.model.sendable import BODY_BYTES_MAX, check_message, check_sendable
from framework_spark.options import SinkOptions
from framework_spark.survey import warn

ROW = "SPARK_ROW"
NAMED_MAX = 100  # rows of a task that are left out, and named
PROPERTIES_ROOM = 512  # bytes for an id, and for the group of a half message


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
    """A row as a message, which carries its name; ConfigurationError, with the name, where it cannot be one."""
    try:
        message = _message_of(values, options, name)
        return Row(message, _delay_level(values.get("delay")))
    except ConfigurationError as error:
        raise MessageWrong(f"sink, row {name}: {error}") from error


def check_row(message: Message) -> None:
    """ConfigurationError, with the row's name, for what no broker takes: too dear for each row of a plain sink."""
    try:
        check_message(message, room=PROPERTIES_ROOM)
    except ConfigurationError as error:
        raise MessageWrong(f"sink, row {message.properties[ROW]}: {error}") from error


def _message_of(values: dict[str, Any], options: SinkOptions, name: str) -> Message:
    body, topic = values["body"], values.get("topic") or options.topic
    if not body:
        raise MessageWrong(
            f"body is {'empty' if body is not None else 'null'}, and brokers refuse that; option emptyBody=skip leaves "
            "such rows out"
        )
    if not topic:
        raise MessageWrong("topic is null, and option topic is not given")
    check_sendable(topic)  # it remembers the topic
    if options.lots is not None and topic == options.lots.record_topic:
        raise MessageWrong(f"topic {topic} is the sink's recordTopic, which is to have nothing else; choose another")
    properties = {key: value for key, value in values.get("properties") or () if value is not None}
    if DELAY_LEVEL in properties:
        raise MessageWrong(f"property {DELAY_LEVEL}: write it into the column delay")
    sharding = values.get("sharding")
    properties[ROW] = name
    message = Message(
        topic, body, tags=values.get("tag"), keys=values.get("key") or (), properties=properties,
        order_key=sharding or None,
    )  # fmt: skip
    if len(message.body) > BODY_BYTES_MAX:
        raise MessageWrong(
            f"a body of {len(message.body)} bytes exceeds the limit of {BODY_BYTES_MAX}; keep it elsewhere and send "
            "where it is"
        )
    return message


def _delay_level(delay: int | str | None) -> int:
    """A level as it is, a duration as the shortest level that is not shorter."""
    if not delay:
        return 0
    if isinstance(delay, int):
        if not 1 <= delay <= LEVEL_MAX:
            raise MessageWrong(f"delay {delay}: write a level from 1 to {LEVEL_MAX}, or a duration such as 90s")
        return delay
    try:
        delay_ms = to_ms(delay)
    except ValueError as error:
        raise MessageWrong(f"delay {shorten(delay)}: write a level, or a duration such as 90s") from error
    if delay_ms > DELAYS_MS[-1]:
        raise MessageWrong(f"delay {shorten(delay)}: the longest level is {to_text(DELAYS_MS[-1])}")
    return level_for(delay_ms)
