"""The sink: rows as messages, at least once; with `transactional=true` exactly once, as half messages (`lots.py`).

Spark repeats a task that failed and an epoch that was not committed, so a message may be sent again; each carries the
property SPARK_ROW, `query/epoch/partition/row`, the same at each repetition as long as the query gives the same rows
in the same order, by which a consumer can tell (`once=`). Rows without delay leave in batches, one topic (and, with a
sharding key, one queue) each; a batch that fails is sent by another broker.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TypeVar

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from framework import Message, Producer
from framework.errors import BrokerUnreachable, ConfigurationError, FrameworkError, Refused, nearest
from framework.model.queue import MessageQueue
from framework.reading import Reader
from framework_spark import lots
from framework_spark.mistakes import SparkMisused
from framework_spark.options import SinkOptions
from framework_spark.outgoing import Outgoing, Row, check_row, connection_of, quiet_logs
from framework_spark.survey import warn

T = TypeVar("T")

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
SAME_QUEUE_ATTEMPTS = 3  # at least: a sharded message has one queue, so that there is no other broker to go to
PAUSE_SECONDS, PAUSE_MAX_SECONDS = 0.5, 2.0
_BUSY, _NO_TOPIC = (2, 14), 17  # RocketMQ's SYSTEM_BUSY, SERVICE_NOT_AVAILABLE, TOPIC_NOT_EXIST


@dataclass
class Sent(WriterCommitMessage):
    """What one task sent."""

    rows: int
    left_out: int = 0
    """Rows without a body, with `emptyBody=skip`."""
    query: str = ""
    prepared: bytes = b""
    """Half messages, which the driver's commit ends; empty where their batch was decided before."""


def check_columns(schema: StructType, options: SinkOptions) -> None:
    """Columns that we know, with types that we take, or ConfigurationError naming the first that will not do."""
    names = [name.lower() for name in schema.names]  # as everywhere in Spark
    for field, name in zip(schema.fields, names, strict=True):
        if name not in TYPES:
            raise SparkMisused(
                f"sink: no column {field.name!r}{nearest(field.name, TYPES)}; select among {', '.join(TYPES)}"
            )
        if field.dataType.simpleString() not in TYPES[name]:
            raise SparkMisused(
                f"sink: column {name} is {field.dataType.simpleString()}; cast it to {' or '.join(TYPES[name])}"
            )
        if names.count(name) > 1:
            raise SparkMisused(f"sink: column {name} is there twice; select one of them")
    if "body" not in names:
        raise SparkMisused("sink: column body is missing; it is what is sent")
    if not options.topic and "topic" not in names:
        raise SparkMisused("sink: give option topic or a column topic")
    if options.lots is not None and "delay" in names:
        raise SparkMisused("sink: column delay: half messages have no delay; leave it out with transactional=true")


def send_rows(options: SinkOptions, rows: Outgoing) -> None:
    """On an executor: send all rows. Raises when a row cannot be sent, which fails the task."""
    quiet_logs()
    asyncio.run(_send(options, rows))


async def _send(options: SinkOptions, rows: Outgoing) -> None:
    async with Producer(group=options.group, **connection_of(options)) as producer:
        outbox = _Outbox(producer, options)
        for row in rows:
            await outbox.put(row)
        await outbox.flush()


class _Outbox:
    """Rows that wait for their batch, by topic and queue."""

    def __init__(self, producer: Producer, options: SinkOptions) -> None:
        self._producer, self._size, self._options = producer, options.batch_size, options
        self._waiting: dict[tuple[str, MessageQueue | None], list[Message]] = {}
        self._bytes: dict[tuple[str, MessageQueue | None], int] = {}

    async def put(self, row: Row) -> None:
        message = row.message
        key = message.order_key
        queue = None
        if key is not None:
            queue = await self._attempt(lambda: self._producer.queue_of(message.topic, key))
        place = (message.topic, queue)
        if row.delay_level:  # brokers take no delay in a batch
            await self._flush(place)  # what is before it stays before it
            await self._sent([message], queue, row.delay_level)
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
        if messages:
            await self._sent(messages, queue)

    async def _sent(self, messages: list[Message], queue: MessageQueue | None, delay_level: int = 0) -> None:
        try:
            if len(messages) == 1:  # alone it may be larger than a batch, and is compressed
                (message,) = messages
                await self._attempt(lambda: self._producer.send(message, delay_level=delay_level, queue=queue), queue)
            else:
                await self._attempt(lambda: self._producer.send_batch(messages, queue=queue), queue)
        except ConfigurationError:
            for message in messages:
                check_row(message)
            raise

    async def _attempt(self, send: Callable[[], Awaitable[T]], queue: MessageQueue | None = None) -> T:
        """Again while brokers are away, as long as `brokerWait` says."""
        wait_s, pause = self._options.broker_wait_ms / 1000, PAUSE_SECONDS
        until = time.monotonic() + wait_s
        least = 1 if queue is None else SAME_QUEUE_ATTEMPTS  # without a queue, the producer has tried others
        is_somebody_there = False
        for attempt in count(1):
            try:
                return await send()
            except (BrokerUnreachable, Refused) as error:
                if not self._is_away(error):
                    if is_somebody_there or not (isinstance(error, Refused) and error.code == _NO_TOPIC):
                        raise
                    is_somebody_there = True  # since a moment ago, maybe: brokers bring their topics
                    continue
                if attempt >= least and time.monotonic() >= until:
                    raise
                if attempt == 1 and wait_s:
                    warn(f"{error}; waiting for {wait_s:g} s, as brokerWait says")
            await asyncio.sleep(pause)
            pause = min(2 * pause, PAUSE_MAX_SECONDS)
        raise AssertionError("count has no end")

    def _is_away(self, error: BrokerUnreachable | Refused) -> bool:
        """And not a topic that is gone, or a sink that is not allowed to: name servers forget both the topic and its
        broker while that restarts.
        """
        if isinstance(error, BrokerUnreachable) or error.code in _BUSY:
            return True
        if error.code != _NO_TOPIC:
            return False
        try:
            with Reader(self._options.settings) as reader:
                return not reader.brokers()
        except FrameworkError:
            return True


class _Writer:
    """What both kinds of writer do on an executor, and in the driver once all tasks have."""

    def __init__(self, options: SinkOptions, schema: StructType, query: str = "") -> None:
        """`query`: of a batch write, which has none of Spark's."""
        check_columns(schema, options)
        self._options, self._query = options, query

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        task, lots_of = TaskContext.get(), self._options.lots
        assert task is not None, "Spark writes in tasks"
        of_stream = task.getLocalProperty("sql.streaming.queryId")
        name = self._query or of_stream or "query"
        epoch = int(task.getLocalProperty("streaming.sql.batchId") or 0)
        if lots_of is None:
            rows = Outgoing(self._options, iterator, f"{name}/{epoch}/{task.partitionId()}")
            send_rows(self._options, rows)
            return Sent(rows.sent, rows.left_out)
        if not self._query and not of_stream:
            raise SparkMisused("sink: transactional=true: Spark does not say which query this is")
        epoch = lots_of.lot if self._query else epoch
        rows = Outgoing(self._options, iterator, f"{name}/{epoch}/{task.partitionId()}")
        prepared = lots.prepared(self._options, rows, name, epoch)
        return Sent(rows.sent, rows.left_out, name, prepared)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int | None = None) -> None:  # noqa: N803
        """Have each row of the epoch seen, once. Without `transactional` it was seen when it was sent."""
        sent, lots_of = [each for each in messages if isinstance(each, Sent)], self._options.lots
        epoch = batchId if batchId is not None else 0 if lots_of is None else lots_of.lot
        if lots_of is not None:
            lots.settle(self._options, sent[0].query, epoch, [each.prepared for each in sent])
        if left_out := sum(each.left_out for each in sent):
            rows = left_out + sum(each.rows for each in sent)
            warn(f"batch {epoch}: {left_out} of {rows} rows had no body, and were left out as emptyBody=skip says")

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int | None = None) -> None:  # noqa: N803
        """Drop what is prepared, where a task failed. Where each has a message, `commit` was called, and may have
        decided already: the repeated epoch goes on with that. Without `transactional` nothing can be taken back.
        """
        sent = [each for each in messages if isinstance(each, Sent)]
        if self._options.lots is not None and sent and len(sent) < len(messages):
            lots.drop(self._options, sent[0].query, [each.prepared for each in sent])


class BatchWriter(_Writer, DataSourceArrowWriter):
    """`df.write`."""

    def __init__(self, options: SinkOptions, schema: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise SparkMisused('sink: a topic cannot be overwritten; write with mode("append")')
        import uuid

        # One a write, on the driver; repeated tasks have the same.
        super().__init__(options, schema, uuid.uuid4().hex if options.lots is None else options.lots.name)


class StreamWriter(_Writer, DataSourceStreamArrowWriter):
    """`df.writeStream`."""
