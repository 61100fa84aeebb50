"""What our part of a small step costs beside Spark's own: a micro-batch of four rows, a batch for a handler.

Each figure of ours has one without us beside it, measured in turns in the same session.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from framework_spark.frames import SHAPE, table_of
from framework_spark.runner import SparkRunner
from framework_spark.schema import SCHEMA
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from framework.model.message import Message
from framework.reading import Reader, ReaderSettings
from framework.wire import stored
from tests.reading.tables import Given

BATCH_ROWS = 4
HANDLER_ROWS = 1000
BATCHES = 8
TURNS = 4  # of each side
WAIT_S = 120


class IdleSource(DataSource):
    """Four rows whenever it is asked, one a partition, and no work: what Spark takes for a micro-batch by itself."""

    @classmethod
    def name(cls) -> str:
        return "idle"

    def schema(self) -> StructType:
        return SCHEMA

    def streamReader(self, schema: StructType) -> IdleReader:  # noqa: N802  # Spark's names, here and below
        return IdleReader(int(self.options["partitions"]))


class IdleReader(DataSourceStreamReader):
    def __init__(self, partitions: int) -> None:
        self._partitions = partitions

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"row": 0}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        return {"row": start["row"] + BATCH_ROWS}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        share = (end["row"] - start["row"]) // self._partitions
        return [InputPartition((start["row"] + share * n, share)) for n in range(self._partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        begin, count = partition.value
        table = table_of([Message("idle", b"body", queue_offset=begin + n) for n in range(count)])
        yield from table.to_batches()


def micro_batches(spark: Any, name_server: str, topic: str, queues: int, folder: Path) -> dict[str, float]:
    """Side -> the median of its micro-batches of four rows, in ms; both have as many tasks, and take turns."""
    _check_filled(name_server, topic, queues)
    spark.dataSource.register(IdleSource)
    given = {"nameServers": name_server, "topic": topic, "startingOffsets": "earliest"}
    ours = spark.readStream.format("rocketmq").options(**given, maxOffsetsPerTrigger=BATCH_ROWS)
    idle = spark.readStream.format("idle").option("partitions", queues)
    found: dict[str, list[float]] = {"ours": [], "idle": []}
    sides = [("ours", ours), ("idle", idle)]
    for turn in range(1 + TURNS):
        for who, source in sides:
            times = _batch_times(source.load(), BATCHES, folder)
            found[who] += times if turn else []  # the first turn warms up
            print(f"{who}: {statistics.median(times):.0f} ms", file=sys.stderr, flush=True)
        sides.reverse()  # Java's compiler is at it all the while: who goes second has it better
    return {who: statistics.median(times) for who, times in found.items()}


def _check_filled(name_server: str, topic: str, queues: int) -> None:
    """A queue without rows would be a task less."""
    with Reader(ReaderSettings((name_server,))) as reader:
        counts = [reader.max_offset(queue) for queue in reader.queues(topic)]
    least = (1 + TURNS) * (BATCHES + 1)
    if len(counts) != queues or min(counts) < least:
        raise RuntimeError(f"{topic} has {counts} messages in its queues; each of {queues} needs {least} of them")


def _batch_times(frame: Any, count: int, folder: Path) -> list[float]:
    checkpoint = tempfile.mkdtemp(dir=folder)
    query = frame.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
    try:
        until = time.monotonic() + WAIT_S
        while len(_full(query)) <= count:  # the first one starts the workers
            if query.exception() is not None or time.monotonic() > until:
                raise RuntimeError(f"{len(_full(query))} of {count} micro-batches: {query.exception()}")
            time.sleep(0.1)
        return [each["durationMs"]["triggerExecution"] for each in _full(query)[1:]]
    finally:
        query.stop()
        shutil.rmtree(checkpoint, ignore_errors=True)


def _full(query: Any) -> list[Any]:
    return [each for each in query.recentProgress if each["numInputRows"] == BATCH_ROWS]


def handler_batches(spark: Any, name_server: str, topic: str, count: int) -> dict[str, float]:
    """Side -> the median of a batch of 1,000 messages, in ms, with the same job and the same answer.

    `bare` has its Arrow table ready. Ours begins with the pulled bytes, and ends with one outcome a message.
    """
    with Reader(ReaderSettings((name_server,))) as reader:
        (queue, *_) = [each for each in reader.queues(topic) if reader.max_offset(each) >= HANDLER_ROWS]
        pulled: list[bytes] = []
        at = 0
        while at < HANDLER_ROWS:
            answer = reader.pull(queue, at, HANDLER_ROWS)
            pulled.append(answer.data)
            at = answer.next_offset

    def messages() -> list[Message]:
        return [message for data in pulled for message in stored.decode(data, queue)][:HANDLER_ROWS]

    def job(frame: Any) -> Any:
        return frame.where("offset % 500 = 7").selectExpr(
            "topic", "broker", "queueId", "offset", "'retry' verdict", "'no price' reason"
        )

    run = SparkRunner(Given(spark)).prepared(job, "benchmark", "benchmark")
    table, session = table_of(messages()), spark.newSession()
    assert table.schema == SHAPE
    assert table.num_rows == HANDLER_ROWS

    def bare() -> int:
        return int(job(session.createDataFrame(table)).toArrow().num_rows)

    def ours() -> int:
        answer: Any = run(messages())
        return sum(outcome is not None for outcome in answer)

    found: dict[str, list[float]] = {"bare": [], "ours": []}
    sides: tuple[tuple[str, Callable[[], int]], ...] = (("bare", bare), ("ours", ours))
    for turn in range(2 * count):
        for who, side in sides:
            began = time.perf_counter()
            if side() != HANDLER_ROWS // 500:
                raise RuntimeError(f"{who}: another number of verdicts than {HANDLER_ROWS // 500}")
            if turn >= count:  # the first half compiles
                found[who].append((time.perf_counter() - began) * 1000)
    return {who: statistics.median(times) for who, times in found.items()}
