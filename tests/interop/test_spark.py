"""Spark against a real cluster and the box: a batch read equals what was sent, by offset."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from framework_spark.frames import ADDRESS
from framework_spark.managed import ManagedQuery
from framework_spark.settings import GroupSettings
from structlog.testing import capture_logs

from framework import Message, Producer
from framework.model.contracts import Taking
from framework.model.subscription import Start
from framework.reading import Reader, ReaderSettings, decode_properties
from framework.settings.schema import ClusterSettings
from tests.interop.cluster import Cluster
from tests.interop.places import Place
from tests.interop.processes import Nursery
from tests.patience import wait_until
from tests.reading.spark import spark_session
from tests.reading.tables import Given

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


def test_an_outage_of_the_only_broker_spends_no_attempt_of_mode_source(
    spark: Any, nursery: Nursery, tmp_path: Path
) -> None:
    """It is killed while a batch is handled, whose reading then fails. No message has a second attempt."""
    began, killed, seen = threading.Event(), threading.Event(), list[bytes]()

    def handler(frame: Any) -> Any:
        began.set()
        assert killed.wait(300)
        rows = frame.select("body", *ADDRESS).collect()
        seen.extend(bytes(row.body) for row in rows)
        return frame.where("body = 'm7'").selectExpr(*ADDRESS, "'dead_letter' verdict", "'seven' reason")

    with Cluster(tmp_path / "cluster", nursery) as cluster:
        topic, group = Place(cluster.name_server, lambda: "blameless").made_topic(queues=1), "blameless"
        (role,) = [role for role in cluster.shape.roles() if role.startswith("broker")]

        async def send() -> None:
            async with Producer(name_servers=[cluster.name_server]) as producer:
                for number in range(20):
                    await producer.send(Message(topic, f"m{number}"))

        asyncio.run(send())
        hasty = {"brokerWait": "0s", "fetchRetries": "0"}
        settings = GroupSettings(mode="source", checkpoint=str(tmp_path / "checkpoint"), options=hasty)
        of = ClusterSettings.model_validate({"name_servers": [cluster.name_server]})
        taking = Taking("handler", handler, group, topic, "*", None, 100, 0, 0, Start("first"), of)
        query = ManagedQuery(taking, settings, Given(spark, pause_s=0.2))
        thread = threading.Thread(target=query.run)
        thread.start()
        try:
            with capture_logs() as lines:
                assert began.wait(300)
                cluster.kill(role)
                killed.set()
                wait_until(lambda: any(line["event"] == "spark query ended" for line in lines), "a failure", 300)
                cluster.start()
                wait_until(lambda: query.counts["handled"] + query.counts["dead_lettered"] == 20, "the batch", 300)
        finally:
            killed.set()
            query.stop(60_000)
            thread.join(120)
        assert not thread.is_alive()
        with Reader(ReaderSettings((cluster.name_server,))) as reader:
            dead = [
                (body, decode_properties(texts))
                for each in reader.queues(f"%DLQ%{group}")
                for rows in reader.read(each, 0, reader.max_offset(each))
                for body, texts in zip(rows.bodies, rows.properties, strict=True)
            ]
            retried = [reader.max_offset(each) for each in reader.queues(f"%RETRY%{group}")]

    assert "handler failed" not in {line["event"] for line in lines}
    assert [f"m{n}" for n in range(20)] == [body.decode() for body in seen]
    assert 0 == sum(retried)
    ((body, words),) = dead
    assert (b"m7", "seven", f"{topic}@") == (
        body,
        words["DEAD_LETTER_REASON"],
        words["DEAD_LETTER_ORIGIN"][: len(topic) + 1],
    )
