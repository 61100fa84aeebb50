"""Topics that come, go or are made anew while a stream has a checkpoint."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from framework_spark.source import StreamReader
from framework_spark.survey import DataLost
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from framework.mistakes import NotInCluster
from framework.model.queue import MessageQueue
from framework.reading import Reader, ReaderSettings
from framework.reading.reach import Reach
from framework.wire.bodies.route import MASTER
from framework.wire.fields import command_for
from framework.wire.requests.admin import DeleteTopicRequest
from tests.patience import wait_until
from tests.reading.threads import ThreadBox, texts

ALL = ReadAllAvailable()
Streams = Callable[..., StreamReader]


@pytest.fixture(autouse=True)
def _routes_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("framework_spark.survey.REFRESH_SECONDS", 0.0)


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


def delete(box: ThreadBox, topic: str) -> None:
    """On each of its brokers, as `mqadmin deleteTopic` does."""
    reach = Reach(ReaderSettings((box.address,)))
    route = reach.route(topic)
    assert route is not None
    for replicas in route.addresses.values():
        assert 0 == reach.request(replicas[MASTER], command_for(DeleteTopicRequest(topic=topic))).code
    reach.close()


def test_a_topic_that_is_gone_is_a_loss_or_a_warning(
    box: ThreadBox, topic: str, stream: Streams, capfd: pytest.CaptureFixture[str]
) -> None:
    """Also where it was named, and where it was the only one; what else was named goes on."""
    first, second = f"{topic}-a", f"{topic}-b"
    fill(box, first)
    fill(box, second)
    both, one = stream(topic=f"{first},{second}"), stream(topic=second)
    done = [reader.latestOffset(reader.initialOffset(), ALL) for reader in (both, one)]
    delete(box, second)
    fill(box, first, start=20)

    for given, start in zip((f"{first},{second}", second), done, strict=True):
        for is_available_now in (False, True):
            strict, lenient = stream(topic=given), stream(topic=given, failOnDataLoss="false")
            if is_available_now:
                strict.prepareForTriggerAvailableNow()
                lenient.prepareForTriggerAvailableNow()
            with pytest.raises(
                DataLost, match=f"{second}@broker-a:0 is in the checkpoint at offset 20 and in no route"
            ):
                strict.latestOffset(start, ALL)
            assert ([list(range(20, 40))] if first in given else []) == batches(lenient, start, ALL)
            assert f"{second}@broker-a:0 is in the checkpoint" in capfd.readouterr().err
    fresh = stream(topic=f"{first},{second}", failOnDataLoss="false")
    assert [first] == list(fresh.initialOffset())
    with pytest.raises(NotInCluster, match="create it first"):
        stream(topic=second, failOnDataLoss="false").initialOffset()


def test_a_topic_that_the_options_name_no_more_is_said_to_be_that(box: ThreadBox, topic: str, stream: Streams) -> None:
    first, second = f"{topic}-a", f"{topic}-b"
    fill(box, first)
    fill(box, second)
    reader = stream(topic=f"{first},{second}")
    done = reader.latestOffset(reader.initialOffset(), ALL)

    for options in ({"topic": first}, {"topicPattern": f"{topic}-a"}):
        with pytest.raises(
            DataLost, match=f"{second}@broker-a:0 is in the checkpoint .* options do not name its topic"
        ):
            stream(**options).latestOffset(done, ALL)
        assert done == stream(**options, failOnDataLoss="false").latestOffset(done, ALL)


@pytest.mark.parametrize("is_running", [False, True])
def test_a_topic_that_was_made_anew_and_is_longer_is_a_loss(
    box: ThreadBox, topic: str, stream: Streams, is_running: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    """By its offsets alone nothing is wrong: they are there, and twenty messages would never be read."""
    fill(box, topic)
    strict, lenient = stream(topic=topic), stream(topic=topic, failOnDataLoss="false")
    done = strict.latestOffset(strict.initialOffset(), ALL)
    assert done == lenient.latestOffset(done, ALL) == json.loads(json.dumps(done))
    delete(box, topic)
    fill(box, topic, 30)
    if not is_running:
        strict, lenient = stream(topic=topic), stream(topic=topic, failOnDataLoss="false")

    with pytest.raises(DataLost, match=f"{topic}@broker-a:0 was made anew: its message at offset 19 was stored at 20"):
        strict.latestOffset(done, ALL)
    assert list(range(30)) == list(chain(*batches(lenient, done, ReadMaxRows(12))))
    assert "was made anew" in capfd.readouterr().err


def test_a_topic_that_stays_is_not_taken_for_another(box: ThreadBox, topic: str, stream: Streams) -> None:
    """Also where the message is gone by which it is known, or a checkpoint has none."""
    queue = fill(box, topic)
    reader = stream(topic=topic)
    done = reader.latestOffset(reader.initialOffset(), ALL)
    fill(box, topic, start=20)
    old = {name: brokers for name, brokers in done.items() if name == topic}

    assert list(range(20, 40)) == list(chain(*batches(stream(topic=topic), done, ReadMaxRows(7))))
    assert list(range(20, 40)) == list(chain(*batches(stream(topic=topic), old, ALL)))
    assert old == stream(topic=topic, startingOffsets=json.dumps(done)).initialOffset()
    box.keep_from(queue, 20)
    assert list(range(20, 40)) == list(chain(*batches(stream(topic=topic), done, ALL)))


@pytest.mark.timeout(600)
def test_a_real_query_reads_a_topic_that_comes_later_until_it_is_made_anew(
    spark: Any, box: ThreadBox, topic: str, tmp_path: Path
) -> None:
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
    delete(box, f"{topic}-b")
    fill(box, f"{topic}-b", 40)
    with pytest.raises(StreamingQueryException, match="-b@broker-a:0 was made anew"):
        run()
