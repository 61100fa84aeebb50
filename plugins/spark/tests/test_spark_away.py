"""A broker that is away is waited for, as long as brokerWait says; a topic that is gone is an error at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from framework_spark.datasource import RocketMQ
from framework_spark.options import sink_options, source_options
from framework_spark.outgoing import Outgoing
from framework_spark.schema import SCHEMA
from framework_spark.sink import send_rows
from framework_spark.source import Piece, StreamReader
from framework_spark.survey import DataLost
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.streaming.datasource import ReadAllAvailable

from framework.broker.intercept import Interceptor
from framework.broker.request import Request
from framework.errors import BrokerUnreachable, ConfigurationError, Refused
from framework.mistakes import NotInCluster
from framework.wire.bodies.route import ClusterInfo
from framework.wire.codes import RequestCode, ResponseCode
from framework.wire.command import RemotingCommand
from tests.patience import wait_until
from tests.reading.threads import ThreadBox, texts

ALL = ReadAllAvailable()
AWAY = RemotingCommand(ResponseCode.GO_AWAY)
NO_TOPIC = RemotingCommand(ResponseCode.TOPIC_NOT_EXIST, remark="no topic of this name")


@pytest.fixture
def filled(box: ThreadBox, topic: str) -> str:
    box.send(topic, texts(topic, 10), queue=0, broker="broker-a")
    return topic


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is counted here is attempts; how long a pause is tells nothing."""

    class Event:
        def wait(self, seconds: float) -> None:
            assert seconds <= 2.0

    monkeypatch.setattr("framework.reading.reach.Event", Event)
    monkeypatch.setattr("framework_spark.survey.PAUSE_SECONDS", 0.0)


@contextmanager
def answering(box: ThreadBox, code: int, answer: Any, times: int | None = None) -> Iterator[Interceptor]:
    found = Interceptor(code=code, answer=lambda _: answer, times=times)
    undo = box.broker.intercept(found)
    try:
        yield found
    finally:
        undo()


@contextmanager
def unregistered(box: ThreadBox, filled: str) -> Iterator[Interceptor]:
    """What name servers say of the only broker of a topic while it restarts: there is no such topic, no such broker."""
    nobody = RemotingCommand(0, body=b'{"brokerAddrTable":{},"clusterAddrTable":{}}')
    assert not ClusterInfo.decode(nobody.body).brokers
    with (
        answering(box, RequestCode.GET_BROKER_CLUSTER_INFO, nobody),  # the last to end: a broker brings its topics
        answering(box, RequestCode.GET_ROUTEINFO_BY_TOPIC, NO_TOPIC) as asked,
    ):
        yield asked


@contextmanager
def registered_once_asked(box: ThreadBox, times: int = 1) -> Iterator[Interceptor]:
    """The broker of a topic registers in the moment after the topic was asked for."""
    nobody = RemotingCommand(0, body=b'{"brokerAddrTable":{},"clusterAddrTable":{}}')

    def no_topic(_: Request) -> RemotingCommand:
        cluster.times = cluster.hits
        return NO_TOPIC

    cluster = Interceptor(code=RequestCode.GET_BROKER_CLUSTER_INFO, answer=nobody, when=lambda _: not cluster.is_spent)
    cluster.times = None
    route = Interceptor(code=RequestCode.GET_ROUTEINFO_BY_TOPIC, answer=no_topic, times=times)
    undo = [box.broker.intercept(each) for each in (cluster, route)]
    try:
        yield route
    finally:
        for each in undo:
            each()


def planned(reader: StreamReader) -> list[Any]:
    start = reader.initialOffset()
    return list(reader.partitions(start, reader.latestOffset(start, ALL)))


def test_two_minutes_are_waited_unless_it_is_said_otherwise() -> None:
    given = {"nameServers": "a:1", "topic": "orders"}

    assert 120_000 == source_options(given, streaming=True).broker_wait_ms
    assert 0 == source_options({**given, "brokerwait": "0s"}, streaming=False).broker_wait_ms


def test_a_task_waits_for_a_broker_that_restarts(
    box: ThreadBox, filled: str, stream: Callable[..., StreamReader]
) -> None:
    """It used up its four attempts within a second, and Spark its four tasks within some more."""
    reader = stream(topic=filled)
    (piece,) = planned(reader)

    with answering(box, RequestCode.LITE_PULL_MESSAGE, AWAY, times=20) as away:
        assert 10 == sum(len(batch) for batch in reader.read(piece))
        assert away.is_spent


def test_a_task_that_shall_not_wait_fails_after_four_attempts(
    box: ThreadBox, filled: str, stream: Callable[..., StreamReader]
) -> None:
    reader = stream(topic=filled, brokerWait="0s")
    (piece,) = planned(reader)

    with (
        answering(box, RequestCode.LITE_PULL_MESSAGE, AWAY),
        pytest.raises(BrokerUnreachable, match="4 attempts failed"),
    ):
        list(reader.read(piece))


@pytest.mark.parametrize("is_asked", [True, False])
def test_a_task_does_not_wait_for_a_topic_that_is_gone(
    box: ThreadBox, filled: str, stream: Callable[..., StreamReader], is_asked: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its broker says so, or it is in no route, while its broker is registered."""
    strict, lenient = stream(topic=filled), stream(topic=filled, failOnDataLoss="false")
    (piece,) = planned(strict)

    with (
        answering(box, RequestCode.GET_ROUTEINFO_BY_TOPIC, NO_TOPIC, times=0 if is_asked else None) as route,
        answering(box, RequestCode.LITE_PULL_MESSAGE, NO_TOPIC if is_asked else AWAY),
    ):
        with pytest.raises(DataLost, match=f"{filled}@broker-a:0: offsets 0 to 9 are gone .the topic is not on its"):
            list(strict.read(piece))
        assert [] == list(lenient.read(piece))
    assert is_asked or route.hits
    assert "the topic is not on its broker any more" in capfd.readouterr().err


def test_a_stream_waits_while_no_broker_answers(
    box: ThreadBox, filled: str, stream: Callable[..., StreamReader], capfd: pytest.CaptureFixture[str]
) -> None:
    reader, hasty = stream(topic=filled), stream(topic=filled, brokerWait="0s")
    done = reader.latestOffset(reader.initialOffset(), ALL)
    box.send(filled, texts(filled, 5), queue=0, broker="broker-a")

    with answering(box, RequestCode.GET_MAX_OFFSET, AWAY):
        assert [done, done] == [reader.latestOffset(done, ALL) for _ in range(2)]
        with pytest.raises(BrokerUnreachable):
            hasty.latestOffset(done, ALL)
        reader._outages.since[""] -= 120
        with pytest.raises(BrokerUnreachable):
            reader.latestOffset(done, ALL)

    assert 15 == reader.latestOffset(done, ALL)[filled]["broker-a"]["0"]
    assert 1 == capfd.readouterr().err.count("waiting for 120 s, as brokerWait says")


def test_available_now_still_reads_up_to_its_target_while_brokers_are_away(
    box: ThreadBox, filled: str, stream: Callable[..., StreamReader], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Offsets that stay where they are would end such a query as if all was read; its tasks wait instead."""
    monkeypatch.setattr("framework_spark.survey.REFRESH_SECONDS", 0.0)
    reader = stream(topic=filled)
    start = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()

    with unregistered(box, filled):
        assert 10 == reader.latestOffset(start, ALL)[filled]["broker-a"]["0"]


def test_a_queue_in_no_route_waits_for_its_broker_and_is_lost_without_its_topic(
    box: ThreadBox, filled: str, stream: Callable[..., StreamReader], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name server forgets the routes of a broker that restarts: by them alone its topics seem deleted."""
    monkeypatch.setattr("framework_spark.survey.REFRESH_SECONDS", 0.0)
    reader = stream(topic=filled)
    done = reader.latestOffset(reader.initialOffset(), ALL)

    with unregistered(box, filled):
        assert done == reader.latestOffset(done, ALL)
        reader._outages.since["broker-a"] -= 120
        with pytest.raises(DataLost, match="in no route any more"):
            reader.latestOffset(done, ALL)
    assert done == reader.latestOffset(done, ALL), "it is back"

    with answering(box, RequestCode.GET_ROUTEINFO_BY_TOPIC, NO_TOPIC), pytest.raises(DataLost, match="in no route"):
        reader.latestOffset(done, ALL)


def test_a_queue_whose_broker_has_just_come_back_is_not_lost(
    box: ThreadBox, filled: str, stream: Callable[..., StreamReader], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Routes are known from a few seconds ago, when there were none, and the broker is registered again."""
    reader = stream(topic=filled)
    done = reader.latestOffset(reader.initialOffset(), ALL)
    with unregistered(box, filled), monkeypatch.context() as quick:
        quick.setattr("framework_spark.survey.REFRESH_SECONDS", 0.0)
        assert done == reader.latestOffset(done, ALL)

    assert done == reader.latestOffset(done, ALL)


def test_a_broker_that_registers_between_two_questions_is_not_taken_for_a_topic_that_is_gone(
    box: ThreadBox, filled: str, stream: Callable[..., StreamReader]
) -> None:
    """Each is asked for its topic, which is not there yet, and then for its broker, which is."""
    with registered_once_asked(box) as route:
        assert 0 == stream(topic=filled).initialOffset()[filled]["broker-a"]["0"]
        assert route.is_spent

    reader = stream(topic=filled)
    start = reader.initialOffset()
    with unregistered(box, filled):
        reader.prepareForTriggerAvailableNow()
    with registered_once_asked(box) as route:
        assert 10 == reader.latestOffset(start, ALL)[filled]["broker-a"]["0"]
        assert route.is_spent

    options = sink_options({"nameServers": box.address, "topic": filled})
    with registered_once_asked(box, times=2) as route:  # a producer asks for the template of new topics, too
        send_rows(options, Outgoing(options, iter([pa.RecordBatch.from_pydict({"body": [b"late"]})]), "q/0/0"))
        assert route.is_spent


def test_each_queue_that_lost_something_is_named(
    box: ThreadBox, filled: str, stream: Callable[..., StreamReader]
) -> None:
    box.send(filled, texts(filled, 10), queue=1, broker="broker-a")
    box.send(filled, texts(filled, 10), queue=0, broker="broker-b")
    for number in (0, 1):
        box.keep_from(_queue(filled, number), 4 + number)
    checkpoint = {filled: {"broker-a": {"0": 2, "1": 5}, "broker-b": {"0": 700}}}

    with pytest.raises(DataLost) as raised:
        stream(topic=filled).latestOffset(checkpoint, ALL)

    said = str(raised.value)
    assert f"{filled}@broker-a:0: offsets 2 to 3 are gone" in said
    assert f"{filled}@broker-b:0 ends at offset 10, and the checkpoint is at 700" in said
    assert "broker-a:1" not in said, "what it goes on from is there"
    assert said.endswith("; option failOnDataLoss=false goes on without them")


def _queue(topic: str, number: int) -> Any:
    from framework.model.queue import MessageQueue

    return MessageQueue(topic, "broker-a", number)


def test_a_stream_waits_for_its_first_offsets_and_is_told_of_a_topic_that_is_not_there(
    box: ThreadBox, filled: str, stream: Callable[..., StreamReader], capfd: pytest.CaptureFixture[str]
) -> None:
    """Name servers forget a broker that restarts, and its topics: then nothing is known of the topic yet."""
    nobody = RemotingCommand(0, body=b'{"brokerAddrTable":{},"clusterAddrTable":{}}')
    reader = stream(topic=filled)

    with (
        answering(box, RequestCode.GET_ROUTEINFO_BY_TOPIC, NO_TOPIC, times=3),
        answering(box, RequestCode.GET_BROKER_CLUSTER_INFO, nobody, times=3),
        answering(box, RequestCode.GET_MIN_OFFSET, AWAY, times=20) as asked,
    ):
        assert 0 == reader.initialOffset()[filled]["broker-a"]["0"]
        assert asked.is_spent
    assert 1 == capfd.readouterr().err.count("no broker is registered at the name servers; waiting for 120 s")
    with unregistered(box, filled), pytest.raises(BrokerUnreachable, match="no broker is registered"):
        stream(topic=filled, brokerWait="0s").initialOffset()
    with answering(box, RequestCode.GET_ROUTEINFO_BY_TOPIC, NO_TOPIC), pytest.raises(NotInCluster, match="create it"):
        stream(topic=filled).initialOffset()


@pytest.mark.parametrize("code", [RequestCode.GET_ROUTEINFO_BY_TOPIC, RequestCode.GET_MAX_OFFSET])
def test_available_now_waits_where_a_broker_is_away_at_its_start(
    box: ThreadBox, filled: str, stream: Callable[..., StreamReader], code: int
) -> None:
    """With no target, or one without that broker's queues, the query would end as if all had been read."""
    before = stream(topic=filled)
    done = before.latestOffset(before.initialOffset(), ALL)
    box.send(filled, texts(filled, 5), queue=0, broker="broker-a")
    reader = stream(topic=filled)
    nobody = RemotingCommand(0, body=b'{"brokerAddrTable":{},"clusterAddrTable":{}}')

    with (
        answering(box, code, NO_TOPIC if code == RequestCode.GET_ROUTEINFO_BY_TOPIC else AWAY, times=3) as away,
        answering(box, RequestCode.GET_BROKER_CLUSTER_INFO, nobody, times=2),
    ):
        reader.prepareForTriggerAvailableNow()
        assert 15 == reader.latestOffset(done, ALL)[filled]["broker-a"]["0"]
        assert away.is_spent


def test_a_batch_read_is_planned_when_brokers_are_back(box: ThreadBox, filled: str) -> None:
    nobody = RemotingCommand(0, body=b'{"brokerAddrTable":{},"clusterAddrTable":{}}')
    given = {"nameServers": box.address, "topic": filled}

    with (
        answering(box, RequestCode.GET_ROUTEINFO_BY_TOPIC, NO_TOPIC, times=3) as away,
        answering(box, RequestCode.GET_BROKER_CLUSTER_INFO, nobody, times=3),
        answering(box, RequestCode.GET_MAX_OFFSET, AWAY, times=20) as asked,
    ):
        (piece,) = RocketMQ(CaseInsensitiveDict(given)).reader(SCHEMA).partitions()
        assert away.is_spent
        assert asked.is_spent

    assert isinstance(piece, Piece)
    assert 10 == piece.piece.size


def test_a_report_is_no_reason_to_fail(box: ThreadBox, filled: str, stream: Callable[..., StreamReader]) -> None:
    reader = stream(topic=filled)
    done = reader.latestOffset(reader.initialOffset(), ALL)
    assert reader._survey is not None
    reader._survey._ends_at = None

    with answering(box, RequestCode.GET_MAX_OFFSET, AWAY):
        said = reader.reportLatestOffset() or {}

    assert 10 == said[filled]["broker-a"]["0"]
    assert {"broker-a"} == set(said["(away)"]["seconds"])
    assert done == reader.latestOffset(done, ALL)


def test_what_is_not_allowed_is_no_outage(box: ThreadBox, filled: str, stream: Callable[..., StreamReader]) -> None:
    refused = RemotingCommand(ResponseCode.NO_PERMISSION, remark="no rule lets you")
    reader = stream(topic=filled)
    done = reader.initialOffset()
    (piece,) = reader.partitions(done, reader.latestOffset(done, ALL))

    for code in (RequestCode.GET_MAX_OFFSET, RequestCode.LITE_PULL_MESSAGE):
        with answering(box, code, refused) as asked:
            with pytest.raises(Refused, match="no rule lets you"):
                reader.latestOffset(done, ALL) if code == RequestCode.GET_MAX_OFFSET else list(reader.read(piece))
            assert asked.hits <= 5, "of four queues at once, and of the one that said why"


def test_a_busy_broker_is_asked_again(box: ThreadBox, filled: str, stream: Callable[..., StreamReader]) -> None:
    """As one answers that has just started."""
    reader = stream(topic=filled)
    with answering(box, RequestCode.GET_MAX_OFFSET, RemotingCommand(ResponseCode.SYSTEM_BUSY), times=6):
        assert 10 == reader.latestOffset(reader.initialOffset(), ALL)[filled]["broker-a"]["0"]


def test_a_request_is_made_again_as_often_as_it_is_said(
    box: ThreadBox, filled: str, stream: Callable[..., StreamReader]
) -> None:
    reader = stream(topic=filled, brokerWait="0s", fetchRetries="1")
    (piece,) = planned(reader)

    with (
        answering(box, RequestCode.LITE_PULL_MESSAGE, AWAY) as asked,
        pytest.raises(BrokerUnreachable, match="2 attempts failed"),
    ):
        list(reader.read(piece))
    assert 2 == asked.hits
    with pytest.raises(ConfigurationError, match=r"option fetchRetries=.many.: write a whole number from 0 on"):
        source_options({"nameServers": "a:1", "topic": "orders", "fetchRetries": "many"}, streaming=True)


@pytest.mark.timeout(600)
def test_a_real_stream_outlives_an_outage_of_its_only_broker(
    spark: Any, box: ThreadBox, filled: str, tmp_path: Path
) -> None:
    """At its start, while it is idle, and in a batch; name servers know neither the topic nor a broker meanwhile."""
    table = tmp_path / "table"

    @contextmanager
    def outage() -> Iterator[Interceptor]:
        with (
            unregistered(box, filled) as asked,
            answering(box, RequestCode.GET_MAX_OFFSET, AWAY),
            answering(box, RequestCode.GET_MIN_OFFSET, AWAY),
            answering(box, RequestCode.LITE_PULL_MESSAGE, AWAY),
        ):
            yield asked

    def offsets() -> list[int]:
        assert query.exception() is None, str(query.exception())[:3000]
        if not list(table.glob("_spark_metadata/[0-9]*")):
            return []
        return sorted(row.offset for row in spark.read.parquet(str(table)).collect())

    options = {"nameServers": box.address, "topic": filled, "startingOffsets": "earliest"}
    with ExitStack() as away:
        asked = away.enter_context(outage())
        frame = spark.readStream.format("rocketmq").options(**options).load().select("offset")
        written = frame.writeStream.format("parquet").option("path", str(table))
        query = (
            written.option("checkpointLocation", str(tmp_path / "state"))
            .trigger(processingTime="100 milliseconds")
            .start()
        )
        wait_until(lambda: asked.hits >= 3 or query.exception() is not None, "questions at its start", 300)
        away.close()
        try:
            wait_until(lambda: list(range(10)) == offsets(), "what is there", 300)
            with outage() as asked:
                wait_until(lambda: asked.hits >= 8 or query.exception() is not None, "questions while it is idle", 300)
            box.send(filled, texts(filled, 10), queue=0, broker="broker-a")
            wait_until(lambda: list(range(20)) == offsets(), "what came then", 300)
        finally:
            query.stop()
