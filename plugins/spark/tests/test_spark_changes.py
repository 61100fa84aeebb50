"""Topics that come, go or are made anew while a stream has a checkpoint."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from framework_spark.datasource import RocketMQ
from framework_spark.schema import SCHEMA
from framework_spark.source import StreamReader
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from framework.model.queue import MessageQueue
from framework.reading import Reader
from tests.patience import wait_until
from tests.reading.threads import ThreadBox, texts

ALL = ReadAllAvailable()
Streams = Callable[..., StreamReader]


@pytest.fixture
def stream(box: ThreadBox, monkeypatch: pytest.MonkeyPatch) -> Iterator[Streams]:
    """Makes readers that ask for routes each time, and stops them."""
    monkeypatch.setattr("framework_spark.survey.REFRESH_SECONDS", 0.0)
    made: list[StreamReader] = []

    def make(**options: str) -> StreamReader:
        given = {"nameServers": box.address, "startingOffsets": "earliest", **options}
        reader = RocketMQ(CaseInsensitiveDict(given)).streamReader(SCHEMA)
        assert isinstance(reader, StreamReader)
        made.append(reader)
        return reader

    yield make
    for reader in made:
        reader.stop()


def fill(box: ThreadBox, topic: str, count: int = 20, *, start: int = 0) -> MessageQueue:
    box.send(topic, texts(topic, count, start=start), queue=0, broker="broker-a")
    return MessageQueue(topic, "broker-a", 0)


def batches(reader: StreamReader, done: Any, limit: ReadLimit) -> list[list[int]]:
    """The offsets of each batch until there is none, as Spark asks for them."""
    found = []
    while (end := reader.latestOffset(done, limit)) != done:
        pieces = reader.partitions(done, end)
        found.append([row["offset"] for piece in pieces for rows in reader.read(piece) for row in rows.to_pylist()])
        done = end
    return found


@pytest.mark.parametrize("limit", [ALL, ReadMaxRows(4)])
def test_a_topic_that_comes_later_begins_at_its_first_offset(
    box: ThreadBox, topic: str, stream: Streams, limit: ReadLimit
) -> None:
    """Whose first ten offsets retention took before anybody saw it: they are no loss of this query."""
    fill(box, f"{topic}-a")
    reader = stream(topicPattern=f"{topic}-.*")
    done = reader.latestOffset(reader.initialOffset(), ALL)
    box.keep_from(fill(box, f"{topic}-b"), 10)

    found = batches(reader, done, limit)

    assert list(range(10, 20)) == list(chain(*found))
    assert all(found), "no batch is empty"


@pytest.mark.parametrize("limit", [ALL, ReadMaxRows(4)])
def test_a_topic_that_comes_later_begins_at_the_time_that_was_asked_for(
    box: ThreadBox, reader: Reader, topic: str, stream: Streams, limit: ReadLimit
) -> None:
    fill(box, f"{topic}-a")
    queue = fill(box, f"{topic}-b", 10)
    (old,) = reader.read(queue, 9, 10)
    wait_until(lambda: time.time() * 1000 > old.stored_ms[0] + 2, "another millisecond")
    fill(box, f"{topic}-b", 10, start=10)
    (new,) = reader.read(queue, 10, 11)
    ours = stream(topicPattern=f"{topic}-.*", startingOffsets="", startingTimestamp=str(new.stored_ms[0]))
    done = ours.latestOffset(ours.initialOffset(), ALL)
    del done[f"{topic}-b"]

    assert list(range(10, 20)) == list(chain(*batches(ours, done, limit)))


def test_what_retention_takes_of_a_new_topic_before_it_is_read_is_a_loss(
    box: ThreadBox, topic: str, stream: Streams
) -> None:
    fill(box, f"{topic}-a")
    reader = stream(topicPattern=f"{topic}-.*", brokerWait="0s")
    done = reader.latestOffset(reader.initialOffset(), ALL)
    queue = fill(box, f"{topic}-b")
    end = reader.latestOffset(done, ALL)
    box.keep_from(queue, 5)

    with pytest.raises(Exception, match="offsets 0 to 4 are gone"):
        [list(reader.read(piece)) for piece in reader.partitions(done, end)]


@pytest.mark.timeout(600)
@pytest.mark.xdist_group("spark")
def test_a_real_query_reads_a_topic_that_comes_later(spark: Any, box: ThreadBox, topic: str, tmp_path: Path) -> None:
    fill(box, f"{topic}-a")
    table, options = tmp_path / "table", {"nameServers": box.address, "topicPattern": f"{topic}-.*"}

    def run() -> list[tuple[str, int]]:
        frame = (
            spark.readStream.format("rocketmq")
            .options(**options, startingOffsets="earliest", maxOffsetsPerTrigger="10")
            .load()
        )
        query = frame.select("topic", "offset").writeStream.format("parquet").option("path", str(table))
        query.option("checkpointLocation", str(tmp_path / "state")).trigger(
            availableNow=True
        ).start().awaitTermination()
        return sorted((row.topic, row.offset) for row in spark.read.parquet(str(table)).collect())

    first = [(f"{topic}-a", offset) for offset in range(20)]
    assert first == run()
    box.keep_from(fill(box, f"{topic}-b"), 15)
    assert first + [(f"{topic}-b", offset) for offset in range(15, 20)] == run()
