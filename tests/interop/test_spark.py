"""Spark against a real cluster and the box: a batch read equals what was sent, by offset."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from framework import Message, Producer
from framework.reading import Reader, ReaderSettings
from tests.interop.places import Place
from tests.reading.spark import spark_session

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600), pytest.mark.xdist_group("spark")]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with spark_session(tmp_path_factory.mktemp("spark")) as session:
        yield session


def test_a_batch_read_equals_what_was_sent(spark: Any, place: Place) -> None:
    topic = place.new_topic()

    async def send() -> None:
        async with Producer(name_servers=[place.name_server]) as producer:
            for number in range(64):
                await producer.send(Message(topic, f"m{number}", tags="red"))

    asyncio.run(send())
    frame = spark.read.format("rocketmq").option("nameServers", place.name_server).option("topic", topic).load()
    rows = frame.selectExpr("queueId", "offset", "cast(body as string) body", "tag").collect()

    assert sorted(f"m{number}" for number in range(64)) == sorted(row.body for row in rows)
    assert {"red"} == {row.tag for row in rows}
    with Reader(ReaderSettings((place.name_server,))) as reader:
        ends = {queue.number: reader.max_offset(queue) for queue in reader.queues(topic)}
    assert {(number, offset) for number, end in ends.items() for offset in range(end)} == {
        (row.queueId, row.offset) for row in rows
    }


def test_the_transactional_sink_writes_each_row_once_also_where_spark_repeats_a_batch(
    spark: Any, place: Place, tmp_path: Path
) -> None:
    source, target = place.made_topic(queues=2), place.made_topic(queues=3)

    async def send(first: int) -> None:
        async with Producer(name_servers=[place.name_server]) as producer:
            for number in range(first, first + 40):
                await producer.send(Message(source, f"m{number}"))

    def run() -> None:
        frame = spark.readStream.format("rocketmq").options(
            nameServers=place.name_server, topic=source, startingOffsets="earliest"
        )
        query = frame.load().select("body").writeStream.format("rocketmq")
        query = query.options(nameServers=place.name_server, topic=target, transactional="true")
        query = query.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query.trigger(availableNow=True).start().awaitTermination()

    asyncio.run(send(0))
    run()
    for each in (tmp_path / "checkpoint" / "commits").iterdir():
        each.unlink()  # as if the driver had died before Spark noted down that the batch is done
    asyncio.run(send(40))
    run()

    with Reader(ReaderSettings((place.name_server,))) as reader:
        found = [
            (body or b"").decode()
            for queue in reader.queues(target)
            for columns in reader.read(queue, 0, reader.max_offset(queue))
            for body in columns.bodies
        ]
    assert sorted(f"m{number}" for number in range(80)) == sorted(found)
