"""The sink without a JVM: rows become messages with their key, in batches, by another broker where one fails."""

from __future__ import annotations

import socket
from typing import Any

import pyarrow as pa
import pytest
from framework_spark import lots
from framework_spark.datasource import RocketMQ
from framework_spark.options import sink_options
from framework_spark.outgoing import Outgoing
from framework_spark.sink import Sent, StreamWriter, send_rows
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructField, StructType

from framework.broker.intercept import Interceptor
from framework.broker.request import Request
from framework.errors import BrokerUnreachable, ConfigurationError, Refused
from framework.model.reserved import SCHEDULE_TOPIC
from framework.reading import Reader, decode_properties
from framework.wire.codes import RequestCode, ResponseCode
from framework.wire.command import RemotingCommand
from tests.patience import wait_until
from tests.reading.threads import ThreadBox, texts

BODY = StructType([StructField("body", BinaryType()), StructField("topic", StringType())])


def send(address: str, rows: list[dict[str, Any]], prefix: str = "q/0/0", **options: str) -> int:
    given = sink_options({"nameServers": address, **options})
    names = dict.fromkeys(name for row in rows for name in row)
    types = {"properties": pa.map_(pa.string(), pa.string())}
    columns = {name: pa.array([row.get(name) for row in rows], types.get(name)) for name in names}
    outgoing = Outgoing(given, iter([pa.RecordBatch.from_pydict(columns)]), prefix)
    if given.lots is None:
        send_rows(given, outgoing)
    else:
        lots.prepared(given, outgoing, "q", 0)
    return outgoing.sent


def arrived(reader: Reader, topic: str) -> list[tuple[bytes | None, dict[str, str], int]]:
    """Body, properties and queue, in the order of the rows that were sent."""
    found = [
        (body, decode_properties(texts), queue.number)
        for queue in reader.queues(topic)
        for columns in reader.read(queue, 0, reader.max_offset(queue))
        for body, texts in zip(columns.bodies, columns.properties, strict=True)
    ]
    return sorted(found, key=lambda each: int(each[1]["SPARK_ROW"].rpartition("/")[2]))


def test_each_column_reaches_its_place(box: ThreadBox, reader: Reader, topic: str) -> None:
    rows: list[dict[str, Any]] = [
        {"body": b"a", "key": "k1", "tag": "red", "properties": [("n", "1"), ("gone", None)]},
        {"body": "b", "topic": f"{topic}-other"},
    ]
    assert 1 == send(box.address, rows[:1], topic=topic)
    assert 1 == send(box.address, rows[1:], topic=topic)

    ((body, properties, _),) = arrived(reader, topic)
    assert (b"a", "k1", "red", "1") == (body, properties["KEYS"], properties["TAGS"], properties["n"])
    assert "gone" not in properties
    assert "q/0/0/0" == properties["SPARK_ROW"]
    assert [b"b"] == [body for body, _, _ in arrived(reader, f"{topic}-other")]


def test_rows_are_named_alike_at_each_repetition(box: ThreadBox, reader: Reader, topic: str) -> None:
    for _ in range(2):
        assert 10 == send(box.address, [{"body": f"{n}"} for n in range(10)], "query/7/3", topic=topic, batchSize="4")

    names = sorted(properties["SPARK_ROW"] for _, properties, _ in arrived(reader, topic))

    assert sorted(2 * [f"query/7/3/{n}" for n in range(10)]) == names


def test_batches_are_as_large_as_they_may_be(box: ThreadBox, topic: str) -> None:
    seen: list[int] = []

    def note(request: Request) -> bool:
        seen.append(request.command.code)
        return False

    undo = [
        box.broker.intercept(Interceptor(code=code, times=None, when=note))
        for code in (RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_MESSAGE_V2)
    ]
    rows = [{"body": b"x" * size} for size in (10, 10, 10, 600_000, 600_000, 10)]
    send(box.address, rows, topic=topic, batchSize="3")
    for each in undo:
        each()

    batch, single = RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_MESSAGE_V2
    assert [batch, single, batch] == seen


def test_a_sharding_key_chooses_one_queue_and_keeps_order(box: ThreadBox, reader: Reader, topic: str) -> None:
    box.send(topic, texts(topic, 1), queue=0)
    with Reader(reader.settings) as fresh:
        before = {queue: fresh.max_offset(queue) for queue in fresh.queues(topic)}
    rows = [{"body": f"{n}", "sharding": f"key-{n % 3}"} for n in range(30)]
    send(box.address, rows, topic=topic, batchSize="4")

    found: dict[str, list[tuple[int, int]]] = {}
    for queue, start in before.items():
        for columns in reader.read(queue, start, reader.max_offset(queue)):
            for body, text in zip(columns.bodies, columns.properties, strict=True):
                key = decode_properties(text)["__SHARDINGKEY"]
                found.setdefault(key, []).append((queue.number, int(body or b"")))
    assert {"key-0", "key-1", "key-2"} == set(found)
    for key, places in found.items():
        assert 1 == len({number for number, _ in places}), key
        assert sorted(n for _, n in places) == [n for _, n in places], key


def test_a_delay_is_a_level_or_a_duration(box: ThreadBox, reader: Reader, topic: str) -> None:
    """The box's ladder is 50 ms each, so they are there soon; which level was chosen stays in the message."""
    send(box.address, [{"body": "a", "delay": 2}, {"body": "now"}], "a", topic=topic)
    send(box.address, [{"body": "b", "delay": "90s"}], "b", topic=topic)

    wait_until(lambda: len(arrived(reader, topic)) == 3, "all three", pause_s=0.05)
    assert {b"a", b"b", b"now"} == {body for body, _, _ in arrived(reader, topic)}


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ({"body": None}, "body is null, and brokers refuse that; option emptyBody=skip leaves such rows"),
        ({"body": b""}, "body is empty"),
        ({"body": b"x", "topic": "a b"}, "topic 'a b'"),
        ({"body": b"x", "properties": [("TRACE_ON", "1")]}, "property TRACE_ON is RocketMQ's own"),
        ({"body": b"x", "properties": [("DELAY", "3")]}, "property DELAY: write it into the column delay"),
        ({"body": b"x", "properties": [("", "1")]}, "must not be empty"),
        ({"body": b"x", "properties": [("n", "y" * 40_000)]}, "properties of 4.... bytes exceed"),
        ({"body": b"x", "tag": "a||b"}, "no subscription could name this tag"),
        ({"body": b"x", "key": "a\x01b"}, r"holds .x01 or .x02"),
        ({"body": b"x", "topic": SCHEDULE_TOPIC}, "reserved by RocketMQ"),
        ({"body": bytes(4 * 1024 * 1024 + 1)}, "exceeds the limit of 4194304; keep it elsewhere and send where it is$"),
        ({"body": b"x", "delay": 19}, "delay 19: write a level from 1 to 18"),
        ({"body": b"x", "delay": -1}, "delay -1: write a level from 1 to 18"),
        ({"body": b"x", "delay": "soon"}, "delay 'soon': write a level"),
        ({"body": b"x", "delay": "3h"}, "delay '3h': the longest level is 2h"),
    ],
)
def test_a_row_that_cannot_be_sent_is_named(box: ThreadBox, topic: str, row: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^sink, row q/0/0/1: .*{complaint}"):
        send(box.address, [{"body": b"fine"}, row], topic=topic)
    if "delay" not in row:
        with pytest.raises(ConfigurationError, match=f"^sink, row q/0/0/1: .*{complaint}"):
            send(box.address, [{"body": b"fine"}, row], topic=topic, transactional="true", checkpointLocation="/x")


def test_rows_without_a_body_are_left_out_named_and_counted(
    box: ThreadBox, reader: Reader, topic: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """The others keep the names that they would have, so that a query may be told to skip and be started again."""
    rows = [{"Body": each} for each in ("a", None, "b", "", "c")]  # in any case, as everywhere in Spark
    assert 3 == send(box.address, rows, topic=topic, emptyBody="skip")

    assert [("a", "0"), ("b", "2"), ("c", "4")] == [
        ((body or b"").decode(), properties["SPARK_ROW"].rpartition("/")[2])
        for body, properties, _ in arrived(reader, topic)
    ]
    assert "rows without a body, left out as emptyBody=skip says: q/0/0/1, q/0/0/3\n" in capfd.readouterr().err
    writer = StreamWriter(sink_options({"nameServers": box.address, "topic": topic, "emptyBody": "skip"}), BODY)
    writer.commit([Sent(3, 2), None, Sent(4, 1)], 7)
    assert "batch 7: 3 of 10 rows had no body, and were left out as emptyBody=skip" in capfd.readouterr().err
    writer.commit([Sent(3)], 8)
    assert "" == capfd.readouterr().err
    with pytest.raises(ConfigurationError, match="option emptyBody='Null': write fail or skip"):
        sink_options({"nameServers": box.address, "emptyBody": "Null"})


@pytest.mark.timeout(600)
def test_spark_leaves_out_rows_without_a_body(spark: Any, box: ThreadBox, reader: Reader, topic: str) -> None:
    frame = spark.createDataFrame([("a",), (None,), ("",), ("b",)], "body string").coalesce(1)
    written = frame.write.format("rocketmq").options(nameServers=box.address, topic=topic, emptyBody="skip")
    written.mode("append").save()

    bodies = [
        body
        for queue in reader.queues(topic)
        for columns in reader.read(queue, 0, reader.max_offset(queue))
        for body in columns.bodies
    ]
    assert [b"a", b"b"] == sorted(body or b"" for body in bodies)


def test_another_broker_takes_what_one_refuses(box: ThreadBox, reader: Reader, topic: str) -> None:
    busy = Interceptor(
        code=RequestCode.SEND_BATCH_MESSAGE, answer=lambda _: RemotingCommand(ResponseCode.SYSTEM_BUSY), times=1
    )
    box.broker.intercept(busy)

    assert 3 == send(box.address, [{"body": f"{n}"} for n in range(3)], topic=topic)

    assert busy.is_spent
    assert [b"0", b"1", b"2"] == [body for body, _, _ in arrived(reader, topic)]


def test_a_broker_that_is_gone_fails_the_task_with_one_error(topic: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        with pytest.raises(BrokerUnreachable, match="no name server answers"):
            send(f"127.0.0.1:{taken.getsockname()[1]}", [{"body": "x"}], topic=topic, brokerWait="0s")


def test_a_task_waits_for_its_only_broker_and_says_so_once(
    box: ThreadBox, reader: Reader, topic: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Name servers forget a broker that restarts, and its topics, and it is busy when it is back."""
    monkeypatch.setattr("framework_spark.sink.PAUSE_SECONDS", 0.0)
    box.send(topic, texts(topic, 1), queue=0)
    no_topic = RemotingCommand(ResponseCode.TOPIC_NOT_EXIST, remark="no topic of this name")
    nobody = RemotingCommand(0, body=b'{"brokerAddrTable":{},"clusterAddrTable":{}}')
    busy = RemotingCommand(ResponseCode.SYSTEM_BUSY)
    answers = (
        (RequestCode.GET_ROUTEINFO_BY_TOPIC, no_topic, 6),
        (RequestCode.GET_BROKER_CLUSTER_INFO, nobody, 3),
        (RequestCode.SEND_BATCH_MESSAGE, busy, 12),
    )
    given = [Interceptor(code=code, answer=answer, times=times) for code, answer, times in answers]
    for each in given:
        box.broker.intercept(each)

    assert 2 == send(box.address, [{"body": "a"}, {"body": "b"}], topic=topic)

    assert all(each.is_spent for each in given)
    assert 1 == capfd.readouterr().err.count("waiting for 120 s, as brokerWait says")
    assert {b"a", b"b"} == {
        body
        for queue in reader.queues(topic)
        for columns in reader.read(queue, 0, reader.max_offset(queue))
        for body in columns.bodies
    } - {b"m0"}


def test_a_topic_that_is_gone_is_not_waited_for(box: ThreadBox, topic: str) -> None:
    no_topic = RemotingCommand(ResponseCode.TOPIC_NOT_EXIST, remark="no topic of this name")
    undo = box.broker.intercept(Interceptor(code=RequestCode.GET_ROUTEINFO_BY_TOPIC, answer=no_topic, times=None))
    try:
        with pytest.raises(Refused, match="create it first"):
            send(box.address, [{"body": "a"}], topic=topic)
    finally:
        undo()


@pytest.mark.parametrize(
    ("schema", "options", "complaint"),
    [
        ([("body", BinaryType()), ("tags", StringType())], {}, "no column 'tags'; did you mean 'tag'?"),
        ([("body", IntegerType())], {}, "column body is int; cast it to binary or string"),
        ([("key", StringType())], {}, "column body is missing"),
        ([("Body", StringType()), ("body", BinaryType())], {}, "column body is there twice"),
        ([("body", StringType())], {"topic": ""}, "give option topic or a column topic"),
    ],
)
def test_columns_are_checked_before_anything_is_sent(schema: Any, options: dict[str, str], complaint: str) -> None:
    shape = StructType([StructField(name, kind) for name, kind in schema])
    sink = RocketMQ(CaseInsensitiveDict({"nameServers": "a:1", "topic": "t", **options}))

    with pytest.raises(ConfigurationError, match=complaint):
        sink.writer(shape, overwrite=False)
    with pytest.raises(ConfigurationError, match=complaint):
        sink.streamWriter(shape, overwrite=False)


def test_columns_are_named_in_any_case() -> None:
    sink = RocketMQ(CaseInsensitiveDict({"nameServers": "a:1", "topic": "t"}))
    sink.writer(StructType([StructField("Body", StringType()), StructField("KEY", StringType())]), overwrite=False)


def test_a_topic_cannot_be_overwritten() -> None:
    sink = RocketMQ(CaseInsensitiveDict({"nameServers": "a:1", "topic": "t"}))

    with pytest.raises(ConfigurationError, match="cannot be overwritten"):
        sink.writer(BODY, overwrite=True)
