"""The sink: rows as messages, at least once.

Spark repeats a task that failed and an epoch that was not committed, so a message may be sent again; each carries the
property SPARK_ROW, `query/epoch/partition/row`, the same at each repetition as long as the query gives the same rows
in the same order, by which a consumer can tell (`once=`). Rows without delay leave in batches, one topic (and, with a
sharding key, one queue) each; a batch that fails is sent by another broker.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import structlog
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from framework import Message, Producer
from framework.errors import BrokerUnreachable, ConfigurationError, nearest
from framework.model.delay_levels import level_for
from framework.model.durations import to_ms
from framework.model.queue import MessageQueue
from framework.model.subscription import java_hash
from framework_spark.options import SinkOptions

ROW = "SPARK_ROW"
SHARDING_KEY = "__SHARDINGKEY"
TYPES = {
    "body": ("binary", "string"),
    "topic": ("string",),
    "key": ("string",),
    "tag": ("string",),
    "delay": ("int", "string"),
    "sharding": ("string",),
    "properties": ("map<string,string>",),
}
BATCH_BYTES = 1024 * 1024  # a quarter of what brokers take, so that properties never tip it over
SAME_QUEUE_ATTEMPTS = 3  # a sharded message has one queue, so that there is no other broker to go to
PAUSE_SECONDS = 0.5


@dataclass
class Sent(WriterCommitMessage):
    """What one task sent."""

    rows: int


@dataclass(frozen=True, slots=True)
class _Row:
    message: Message
    delay_level: int
    sharding: str | None


def check_columns(schema: StructType, options: SinkOptions) -> None:
    """Columns that we know, with types that we take, or ConfigurationError naming the first that will not do."""
    for field in schema.fields:
        if field.name not in TYPES:
            raise ConfigurationError(
                f"sink: no column {field.name!r}{nearest(field.name, TYPES)}; select among {', '.join(TYPES)}"
            )
        if field.dataType.simpleString() not in TYPES[field.name]:
            raise ConfigurationError(
                f"sink: column {field.name} is {field.dataType.simpleString()}; "
                f"cast it to {' or '.join(TYPES[field.name])}"
            )
    names = schema.fieldNames()
    if "body" not in names:
        raise ConfigurationError("sink: column body is missing; it is what is sent")
    if not options.topic and "topic" not in names:
        raise ConfigurationError("sink: give option topic or a column topic")


def send_rows(options: SinkOptions, batches: Iterator[pa.RecordBatch], prefix: str) -> int:
    """On an executor: send all rows; answers how many. Raises when a row cannot be sent, which fails the task."""
    if not structlog.is_configured():  # a worker of Spark's: only what is wrong belongs into its log
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    return asyncio.run(_send(options, batches, prefix))


async def _send(options: SinkOptions, batches: Iterator[pa.RecordBatch], prefix: str) -> int:
    settings = options.settings
    count = 0
    async with Producer(
        name_servers=settings.name_servers,
        group=options.group,
        credentials=settings.resolve_credentials(),
        tls=settings.tls,
    ) as producer:
        outbox = _Outbox(producer, options.batch_size)
        for batch in batches:
            for values in batch.to_pylist():
                await outbox.put(_row(values, options, f"{prefix}/{count}"))
                count += 1
        await outbox.flush()
    return count


def _row(values: dict[str, Any], options: SinkOptions, name: str) -> _Row:
    body, topic = values["body"], values.get("topic") or options.topic
    if not body:
        raise ConfigurationError(
            f"sink, row {name}: body is {'empty' if body is not None else 'null'}, and brokers refuse that"
        )
    if not topic:
        raise ConfigurationError(f"sink, row {name}: topic is null, and option topic is not given")
    properties = {key: value for key, value in values.get("properties") or () if value is not None}
    sharding = values.get("sharding")
    if sharding:
        properties[SHARDING_KEY] = sharding
    properties[ROW] = name
    message = Message(topic, body, tags=values.get("tag"), keys=values.get("key") or (), properties=properties)
    return _Row(message, _delay_level(values.get("delay"), name), sharding or None)


def _delay_level(delay: int | str | None, name: str) -> int:
    """A level as it is, a duration as the shortest level that is not shorter."""
    if not delay:
        return 0
    if isinstance(delay, int):
        return delay
    try:
        return level_for(to_ms(delay))
    except ValueError as error:
        raise ConfigurationError(
            f"sink, row {name}: delay {delay!r}: write a level, or a duration such as 90s"
        ) from error


class _Outbox:
    """Rows that wait for their batch, by topic and queue."""

    def __init__(self, producer: Producer, size: int) -> None:
        self._producer, self._size = producer, size
        self._waiting: dict[tuple[str, MessageQueue | None], list[Message]] = {}
        self._bytes: dict[tuple[str, MessageQueue | None], int] = {}

    async def put(self, row: _Row) -> None:
        message = row.message
        queue = await self._queue(message.topic, row.sharding) if row.sharding is not None else None
        place = (message.topic, queue)
        if row.delay_level:  # brokers take no delay in a batch
            await self._flush(place)  # what is before it stays before it
            await self._attempt(queue, lambda: self._producer.send(message, delay_level=row.delay_level, queue=queue))
            return
        size = len(message.body) + sum(len(key) + len(value) for key, value in message.properties.items()) + 100
        if self._bytes.get(place, 0) + size > BATCH_BYTES:
            await self._flush(place)
        waiting = self._waiting.setdefault(place, [])
        waiting.append(message)
        self._bytes[place] = self._bytes.get(place, 0) + size
        if len(waiting) >= self._size:
            await self._flush(place)

    async def flush(self) -> None:
        for place in list(self._waiting):
            await self._flush(place)

    async def _flush(self, place: tuple[str, MessageQueue | None]) -> None:
        messages, queue = self._waiting.pop(place, []), place[1]
        self._bytes.pop(place, None)
        if not messages:
            return
        if len(messages) == 1:  # alone it may be larger than a batch, and is compressed
            await self._attempt(queue, lambda: self._producer.send(messages[0], queue=queue))
        else:
            await self._attempt(queue, lambda: self._producer.send_batch(messages, queue=queue))

    async def _attempt(self, queue: MessageQueue | None, send: Any) -> None:
        for attempt in range(1, SAME_QUEUE_ATTEMPTS + 1):
            try:
                await send()
            except BrokerUnreachable:
                if queue is None or attempt == SAME_QUEUE_ATTEMPTS:  # without a queue, the producer has tried others
                    raise
                await asyncio.sleep(PAUSE_SECONDS * attempt)
            else:
                return

    async def _queue(self, topic: str, sharding: str) -> MessageQueue:
        """As Java's SelectMessageQueueByHash: all producers of a key agree while the topic has the same queues."""
        queues = await self._producer.cluster.routes.writable_queues(topic)
        if not queues:
            raise ConfigurationError(f"sink: topic {topic} has no queue to be sharded to; create the topic first")
        return queues[abs(java_hash(sharding)) % len(queues)]


class _Write:
    """What both kinds of writer do on an executor."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        check_columns(schema, options)
        self.options = options

    def send(self, iterator: Iterator[pa.RecordBatch], query: str | None) -> Sent:
        task = TaskContext.get()
        assert task is not None, "Spark writes in tasks"
        name = query or task.getLocalProperty("sql.streaming.queryId") or "query"
        epoch = task.getLocalProperty("streaming.sql.batchId") or "0"
        return Sent(send_rows(self.options, iterator, f"{name}/{epoch}/{task.partitionId()}"))


class BatchWriter(DataSourceArrowWriter):
    """`df.write`."""

    def __init__(self, options: SinkOptions, schema: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise ConfigurationError('sink: a topic cannot be overwritten; write with mode("append")')
        import uuid

        self._query = uuid.uuid4().hex  # one a write, on the driver; repeated tasks have the same
        self._write = _Write(options, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._write.send(iterator, self._query)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Nothing: what was sent is there."""

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Nothing: what was sent cannot be taken back, and will be sent again where the write is repeated."""


class StreamWriter(DataSourceStreamArrowWriter):
    """`df.writeStream`."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._write = _Write(options, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._write.send(iterator, None)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing: what was sent is there."""

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing: what was sent cannot be taken back, and is sent again with the epoch."""
