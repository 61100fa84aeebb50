"""Spark's source, as Spark calls it but without its JVM, against a real cluster.

Single queues, times, a mirrored group, and a commit log in which a bit has flipped.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from framework_spark.datasource import RocketMQ
from framework_spark.source import StreamReader
from framework_spark.survey import DataLost
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.streaming.datasource import ReadAllAvailable

from framework import Message, Producer
from framework.errors import ConfigurationError, ProtocolError
from framework.model.queue import MessageQueue
from framework.reading import Reader, ReaderSettings
from framework.wire.codes import RequestCode
from tests.interop import probe
from tests.interop.cluster import Addresses, Cluster
from tests.interop.mqadmin import Admin
from tests.interop.places import Place

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]


def source(name_server: str, **options: str) -> RocketMQ:
    return RocketMQ(CaseInsensitiveDict({"nameservers": name_server, **options}))


def batch(name_server: str, **options: str) -> list[dict[str, Any]]:
    found = source(name_server, **options)
    reader = found.reader(found.schema())
    return [row for piece in reader.partitions() for batch in reader.read(piece) for row in batch.to_pylist()]


@contextmanager
def stream(name_server: str, **options: str) -> Iterator[StreamReader]:
    found = source(name_server, **options)
    reader = found.streamReader(found.schema())
    assert isinstance(reader, StreamReader)
    try:
        yield reader
    finally:
        reader.stop()


def send(name_server: str, topic: str, bodies: Sequence[str]) -> None:
    async def run() -> None:
        async with Producer(name_servers=[name_server]) as producer:
            for body in bodies:
                await producer.send(Message(topic, body))

    asyncio.run(run())


def queues_of(name_server: str, topic: str) -> dict[MessageQueue, list[int]]:
    """Queue -> when each of its messages was stored."""
    with Reader(ReaderSettings((name_server,))) as reader:
        return {
            queue: [each for rows in reader.read(queue, 0, reader.max_offset(queue)) for each in rows.stored_ms]
            for queue in reader.queues(topic)
        }


def test_queues_are_assigned_and_begin_at_times_of_their_own(place: Place) -> None:
    topic = place.made_topic(queues=2)
    for number in range(8):
        send(place.name_server, topic, [f"m{number}"])
    stored = queues_of(place.name_server, topic)
    queue = max(stored, key=lambda each: len(stored[each]))
    times = stored[queue]
    middle = times[len(times) // 2]
    named = {"assign": json.dumps({topic: {queue.broker: [queue.number]}})}
    starting = json.dumps({topic: {queue.broker: {str(queue.number): middle}}})

    rows = batch(place.name_server, startingOffsetsByTimestamp=starting, **named)

    assert [at for at, when in enumerate(times) if when >= middle] == [row["offset"] for row in rows]
    assert {queue.number} == {row["queueId"] for row in rows}
    late = {"startingTimestamp": str(times[-1] + 1), "startingOffsetsByTimestampStrategy": "error"}
    with pytest.raises(ConfigurationError, match="no message was stored at or after"):
        batch(place.name_server, **late, **named)
    assert [] == batch(place.name_server, startingTimestamp=late["startingTimestamp"], **named)


def test_mqadmin_shows_the_progress_of_a_mirrored_group(
    cluster: Addresses, admin: Admin, new_topic: Callable[..., str], numbers: Callable[[], str]
) -> None:
    topic, group = new_topic(queues=1), f"mirror-{numbers()}"
    send(cluster.name_server, topic, [f"m{n}" for n in range(5)])
    with stream(cluster.name_server, topic=topic, startingOffsets="earliest", group=group) as reader:
        start = reader.initialOffset()
        end = reader.latestOffset(start, ReadAllAvailable())
        assert end[topic]
        (broker,) = end[topic]
        done = {topic: {broker: {"0": 3}}}
        reader.commit(done)

    (line,) = [
        line.split() for line in admin.run("consumerProgress", "-g", group).splitlines() if line.startswith(topic)
    ]
    assert ["5", "3"] == line[3:5], "the broker's end, and up to where the query came"
    assert "2" in line[5:]
    assert topic in admin.run("consumerProgress", "-g", group, "-t", topic)


def test_a_topic_that_was_made_anew_and_has_grown_is_noticed(place: Place) -> None:
    """A real broker keeps a message where it was, and a new topic's messages are elsewhere in its log."""
    topic = place.made_topic(queues=1)
    send(place.name_server, topic, [f"m{n}" for n in range(5)])
    place.shows(topic, 5)
    options = {"topic": topic, "startingOffsets": "earliest"}
    with stream(place.name_server, **options) as reader:
        done = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    assert f"(last) {topic}" in done
    with stream(place.name_server, **options) as again:
        assert done == again.latestOffset(done, ReadAllAvailable())

    delete(place.name_server, topic)
    place.made_topic(queues=1, name=topic)
    send(place.name_server, topic, [f"n{n}" for n in range(9)])
    place.shows(topic, 9)

    with stream(place.name_server, **options) as strict, pytest.raises(DataLost, match="was made anew"):
        strict.latestOffset(done, ReadAllAvailable())


def delete(name_server: str, topic: str) -> None:
    """At its brokers, then at the name server, as mqadmin does it."""
    for broker in probe.known_brokers(name_server):
        assert 0 == probe.ask(broker, RequestCode.DELETE_TOPIC_IN_BROKER, topic=topic)[0]
    assert 0 == probe.ask(name_server, RequestCode.DELETE_TOPIC_IN_NAMESRV, topic=topic)[0]


@pytest.mark.xdist_group("lone_cluster")
def test_a_stream_outlasts_its_only_broker(lone_cluster: Cluster, numbers: Callable[[], str]) -> None:
    """It is idle while the broker is away; one that starts then, and one for what is there now, wait for it."""
    cluster, place = lone_cluster, Place(lone_cluster.name_server, numbers)
    topic = place.made_topic(queues=1)
    send(cluster.name_server, topic, [f"m{n}" for n in range(5)])
    place.shows(topic, 5)
    options = {"topic": topic, "startingOffsets": "earliest"}
    with stream(cluster.name_server, **options) as idle, stream(cluster.name_server, **options) as now:
        start = idle.initialOffset()
        done = idle.latestOffset(start, ReadAllAvailable())
        (piece,) = idle.partitions(start, done)
        cluster.kill("broker-a")
        assert done == idle.latestOffset(done, ReadAllAvailable())
        back = threading.Thread(target=cluster.start)
        back.start()
        now.prepareForTriggerAvailableNow()
        assert done == now.latestOffset(now.initialOffset(), ReadAllAvailable())
        assert 5 == sum(len(rows) for rows in idle.read(piece))
        back.join()
        assert done == idle.latestOffset(done, ReadAllAvailable())


@pytest.mark.xdist_group("lone_cluster")
def test_a_bit_that_flips_in_a_broker_s_log_is_a_row_with_an_error(
    lone_cluster: Cluster, numbers: Callable[[], str]
) -> None:
    where, number = lone_cluster.name_server, numbers()
    topic = Place(where, lambda: number).made_topic(queues=1)
    send(where, topic, [f"a body of {number} that is easily found {n}" for n in range(20)])
    wanted = f"{number} that is easily found 7".encode()
    files = [path for path in lone_cluster.directory.rglob("commitlog/*") if path.is_file()]
    (log,) = [path for path in files if wanted in path.read_bytes()]
    at = log.read_bytes().index(wanted) + len(number) + len(" that is ")
    flip(log, at)
    try:
        with pytest.raises(ProtocolError, match=r"queue offset 7: body's checksum.*option damaged=column"):
            batch(where, topic=topic)
        rows = batch(where, topic=topic, damaged="column")
        skipped = batch(where, topic=topic, damaged="skip")
    finally:
        flip(log, at)  # else the broker's next start would end its log there

    assert list(range(20)) == [row["offset"] for row in rows]
    assert [(7, None)] == [(row["offset"], row["body"]) for row in rows if row["error"] is not None]
    assert [offset for offset in range(20) if offset != 7] == [row["offset"] for row in skipped]


def flip(log: Path, at: int) -> None:
    """A bit; the broker maps the file, so it hands out what stands there now."""
    with log.open("r+b") as file:
        file.seek(at)
        (byte,) = file.read(1)
        file.seek(at)
        file.write(bytes([byte ^ 1]))
