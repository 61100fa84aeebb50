"""The obvious source for Spark, to hold ours against: a message object a message, and a tuple a row."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

from framework_spark.schema import SCHEMA
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
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
