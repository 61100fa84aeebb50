"""Two sources for Spark to hold ours against: the obvious one, and the bare loop whose figures ours was promised by.

`naive` makes a message object a message and yields a tuple a row. `loop` is the least that a source in plain Python can
do: one `unpack` a record into lists, the lists into Arrow, all properties as one text that nobody reads, no checksum
looked at, no damage noticed. What a second of processor time is worth differs between machines, and between days on
one; beside `loop` a figure means the same everywhere.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from struct import Struct
from typing import Any

import pyarrow as pa
from framework_spark.schema import SCHEMA
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from framework.model.queue import MessageQueue
from framework.reading import Reader, ReaderSettings
from framework.wire import stored

SHARE = 4  # it reads one message in so many: all of them would take minutes


class NaiveSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "naive"

    def schema(self) -> StructType:
        return SCHEMA

    def reader(self, schema: StructType) -> NaiveReader:
        return NaiveReader(self.options["nameServers"], self.options["topic"])


class NaiveReader(DataSourceReader):
    def __init__(self, name_servers: str, topic: str) -> None:
        self._settings, self._topic = ReaderSettings((name_servers,)), topic

    def partitions(self) -> list[InputPartition]:
        with Reader(self._settings) as reader:
            return [InputPartition((*queue, reader.max_offset(queue) // SHARE)) for queue in reader.queues(self._topic)]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        topic, broker, number, end = partition.value
        queue, at, instant = MessageQueue(topic, broker, number), 0, dt.datetime.fromtimestamp
        with Reader(self._settings) as reader:
            while at < end:
                pulled = reader.pull(queue, at, end)
                at = pulled.next_offset
                for message in stored.decode(pulled.data, queue):
                    yield (
                        topic, broker, number, message.queue_offset, " ".join(message.keys) or None, message.tags,
                        message.body, instant(message.stored_ms / 1000), instant(message.born_ms / 1000),
                        message.message_id, message.attempt - 1, dict(message.properties),
                    )  # fmt: skip


LOOP_SCHEMA = (
    "topic string, queueId int, offset bigint, body binary, properties string, bornTime timestamp, storeTime timestamp"
)
LOOP_ROWS = 8192
# size, queue, queue offset, born, stored, body length: of a common record.
_LOOP_RECORD = Struct(">i8xi4xq12xq8xq20xi").unpack_from
_LOOP_BODY_AT = 88


class LoopSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "loop"

    def schema(self) -> str:
        return LOOP_SCHEMA

    def reader(self, schema: StructType) -> LoopReader:
        return LoopReader(self.options["nameServers"], self.options["topic"], schema)


class LoopReader(DataSourceReader):
    def __init__(self, name_servers: str, topic: str, schema: StructType) -> None:
        self._settings, self._topic, self._schema = ReaderSettings((name_servers,)), topic, schema

    def partitions(self) -> list[InputPartition]:
        with Reader(self._settings) as reader:
            return [InputPartition((*queue, reader.max_offset(queue))) for queue in reader.queues(self._topic)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        topic, broker, number, end = partition.value
        queue, at, shape = MessageQueue(topic, broker, number), 0, to_arrow_schema(self._schema, timezone="UTC")
        columns: list[list[Any]] = [[] for _ in shape]
        with Reader(self._settings) as reader:
            while at < end:
                pulled = reader.pull(queue, at, end)
                at = pulled.next_offset
                looped(pulled.data, columns)
                if len(columns[0]) >= LOOP_ROWS or at >= end:
                    arrays = [pa.array(values, type=one.type) for values, one in zip(columns, shape, strict=True)]
                    yield pa.RecordBatch.from_arrays(arrays, schema=shape)
                    columns = [[] for _ in shape]


def looped(data: bytes, columns: list[list[Any]]) -> None:
    """Add the records, all of them common ones, to the columns of LOOP_SCHEMA."""
    topics, queues, offsets, bodies, texts, born, stored_at = columns
    at, end, unpack = 0, len(data), _LOOP_RECORD
    while at < end:
        size, queue, offset, born_ms, stored_ms, body_size = unpack(data, at)
        topic_at = at + _LOOP_BODY_AT + body_size
        texts_at = topic_at + 1 + data[topic_at]
        topics.append(data[topic_at + 1 : texts_at].decode())
        queues.append(queue)
        offsets.append(offset)
        bodies.append(data[at + _LOOP_BODY_AT : topic_at])
        texts.append(data[texts_at + 2 : texts_at + 2 + (data[texts_at] << 8 | data[texts_at + 1])].decode())
        born.append(born_ms * 1000)
        stored_at.append(stored_ms * 1000)
        at += size
