"""The source's readers as Spark calls them, without a JVM: what is read when, and what becomes of lost messages."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from framework_spark.datasource import RocketMQ
from framework_spark.offsets import flat
from framework_spark.schema import SCHEMA
from framework_spark.source import StreamReader
from pyspark.sql.datasource import CaseInsensitiveDict, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from framework import Message
from framework.broker.intercept import Interceptor
from framework.broker.request import Request
from framework.errors import BrokerUnreachable, ConfigurationError
from framework.model.queue import MessageQueue
from framework.reading import Reader
from framework.wire.codes import RequestCode, ResponseCode
from framework.wire.command import RemotingCommand
from tests.reading.threads import ThreadBox, texts, thread_box

ALL = ReadAllAvailable()
Streams = Callable[..., StreamReader]


def source(box: ThreadBox, topic: str, **options: Any) -> RocketMQ:
    return RocketMQ(CaseInsensitiveDict({"nameservers": box.address, "topic": topic, **options}))


def rows(reader: DataSourceReader | DataSourceStreamReader, pieces: Sequence[InputPartition]) -> list[dict[str, Any]]:
    """What executors would read: by copies of the reader, as Spark hands them over."""
    copy: Any = pickle.loads(pickle.dumps(reader))
    return [
        row for piece in pieces for batch in copy.read(pickle.loads(pickle.dumps(piece))) for row in batch.to_pylist()
    ]


def batch_of(box: ThreadBox, topic: str, **options: Any) -> list[dict[str, Any]]:
    reader = source(box, topic, **options).reader(SCHEMA)
    return rows(reader, reader.partitions())


def queue_of(topic: str, number: int = 0, broker: str = "broker-a") -> MessageQueue:
    return MessageQueue(topic, broker, number)


@pytest.fixture
def filled(box: ThreadBox, topic: str) -> str:
    """A topic with m0 to m99 in queue 0 of broker-a."""
    box.send(topic, texts(topic, 100, tags="red", keys=["k"]), queue=0, broker="broker-a")
    return topic


def test_a_row_has_every_column_that_is_promised(box: ThreadBox, topic: str) -> None:
    message = Message(topic, "body", tags="red", keys=["a", "b"], properties={"n": "1", "é": "ü"})
    box.send(topic, [message, Message(topic, b"\xff", properties={})], queue=1, broker="broker-a")

    first, second = batch_of(box, topic)

    assert (topic, "broker-a", 1, 0, "a b", "red", b"body", 0) == (
        first["topic"], first["broker"], first["queueId"], first["offset"], first["key"], first["tag"], first["body"],
        first["reconsumeTimes"],
    )  # fmt: skip
    properties = dict(first["properties"])
    assert ("1", "ü", "red", "a b") == (properties["n"], properties["é"], properties["TAGS"], properties["KEYS"])
    assert first["msgId"] == properties["UNIQ_KEY"]
    assert first["bornTime"] <= first["storeTime"]
    assert [None, None, b"\xff"] == [second["key"], second["tag"], second["body"]]


def test_odd_properties_are_read_as_the_framework_reads_them(box: ThreadBox) -> None:
    """A producer in another language may write what ours refuses; one row must not spoil the others."""
    import pyarrow as pa
    from framework_spark.rows import Rows

    from framework.reading import Columns

    columns = Columns(queue_of("t"))
    columns.properties = [b"a\x011\x02b\x01\x02", b"", b"c\x012\x013\x02", b"d\x01\xff", b"UNIQ_KEY\x01u\x02"]
    columns.offsets = [0, 1, 2, 3, 4]
    columns.offset_ids = {0: "o0", 1: "o1", 2: "o2", 3: "o3"}
    shape = pa.schema([("msgId", pa.string()), ("properties", pa.map_(pa.string(), pa.string()))])

    batch = Rows(columns).batch(shape)

    assert ["o0", "o1", "o2", "o3", "u"] == batch.column(0).to_pylist()
    assert [[("a", "1")], [], [("c", "2\x013")], [("d", "\ufffd")], [("UNIQ_KEY", "u")]] == batch.column(1).to_pylist()


@pytest.mark.parametrize(
    "rows",
    [
        [b"KEYS\x01a\x02n\x011\x02", b"KEYS\x01b\x02"],
        [b"KEYS\x01a\x02n\x011", b"KEYS\x01b"],
        [b"KEYS\x01a\x02", b"KEYS\x01b"],
        [b"KEYS\x01a", b"KEYS\x01b\x02"],
        [b"n\x011\x02", b"KEYS\x01b\x02"],
        [b"n\x011\x02", b"m\x01b\x02"],
        [b"n\x011\x02", b"", b"KEYS\x01\xc3\xbc\x02"],
        [b"n\x01\x02", b"KEYS\x01b\x02"],
        [b"KEYS\x01a\x02n\x011\x02", b"KEYS\x01b\x02n\x012\x02"],
        [b"n\x011\x02KEYS\x01a", b"n\x012\x02KEYS\x01b"],
        [b"KEYS\x01a\x02n\x011", b"KEYS\x01b\x02m\x011"],
        [b"KEYS\x01ab", b"KEYSa\x01b"],
        [b"KEYS\x01a\x02KEYS\x01b", b"KEYS\x01c\x02KEYS\x01d"],
        [b"KEYS\x01\xc3\xbc", b"KEYS\x01\xc3\xa4"],
        [b"KEYS\x01a\x02", b"KEYS\x01ab"],
        [b"KEYS\x01\x02n\x011", b"KEYS\x01\x02n\x012"],
        [b"\x01a\x02n\x011", b"\x01b\x02n\x012"],
        [b"KEYS\x01a"],
        [b"", b""],
    ],
    ids=lambda rows: b" ".join(rows).decode().replace("\x01", "=").replace("\x02", ";"),
)
def test_properties_are_cut_alike_whatever_their_shape(rows: list[bytes]) -> None:
    import pyarrow as pa
    from framework_spark.rows import Rows

    from framework.reading import Columns, decode_properties

    columns = Columns(queue_of("t"))
    columns.properties, columns.offsets = rows, list(range(len(rows)))
    shape = pa.schema([("key", pa.string()), ("properties", pa.map_(pa.string(), pa.string()))])

    batch = Rows(columns).batch(shape)

    expected = [decode_properties(row) for row in rows]
    assert expected == [dict(pairs) for pairs in batch.column(1).to_pylist()]
    assert [each.get("KEYS") for each in expected] == batch.column(0).to_pylist()


def test_a_name_that_stands_twice_in_a_row_counts_as_it_was_last() -> None:
    import pyarrow as pa
    from framework_spark.rows import Rows

    from framework.reading import Columns

    columns = Columns(queue_of("t"))
    columns.properties, columns.offsets = [b"KEYS\x01a\x02KEYS\x01b\x02", b"n\x011\x02"], [0, 1]

    assert ["b", None] == Rows(columns).text_of("KEYS", pa.string()).to_pylist()


def test_a_batch_reads_between_its_bounds(box: ThreadBox, filled: str) -> None:
    def offsets(**options: str) -> list[int]:
        return [row["offset"] for row in batch_of(box, filled, **options)]

    at = f'{{"{filled}": {{"broker-a": {{"0": %d}}}}}}'
    assert list(range(100)) == offsets()
    assert list(range(20, 30)) == offsets(startingOffsets=at % 20, endingOffsets=at % 30)
    assert [] == offsets(startingOffsets="latest")
    middle = batch_of(box, filled)[50]["storeTime"].timestamp() * 1000
    later, earlier = offsets(startingTimestamp=str(round(middle))), offsets(endingTimestamp=str(round(middle)))
    assert 50 in later
    assert 50 not in earlier
    assert list(range(100)) == earlier + later


def test_a_schema_names_columns_in_any_case(box: ThreadBox, filled: str) -> None:
    """As everywhere in Spark; they are called as they were named."""
    wanted = StructType([StructField("BODY", BinaryType()), StructField("Offset", LongType(), nullable=False)])
    reader = source(box, filled).reader(wanted)
    (piece,) = reader.partitions()
    stream = source(box, filled, startingOffsets="earliest").streamReader(wanted)

    for each in (reader, stream):
        found = [row for batch in each.read(piece) for row in batch.to_pylist()]
        assert [("BODY", b"m0"), ("Offset", 0)] == list(found[0].items())
    with pytest.raises(ConfigurationError, match="column offset is there twice"):
        source(box, filled).reader(StructType([*wanted.fields, StructField("offset", LongType())]))
    with pytest.raises(ConfigurationError, match="no column 'StorTime'; did you mean 'storeTime'"):
        source(box, filled).reader(StructType([StructField("StorTime", LongType())]))


def test_a_batch_of_nothing_is_nothing(box: ThreadBox, filled: str) -> None:
    """Spark makes up a partition for a reader that has none, and has it read."""
    reader = source(box, filled, startingOffsets="latest").reader(SCHEMA)
    assert [] == reader.partitions()
    assert [] == rows(reader, [InputPartition(None)])


def test_a_bound_for_a_queue_that_is_not_there_is_refused(box: ThreadBox, filled: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"option startingOffsets: {filled}@broker-a:99 is none of the"):
        batch_of(box, filled, startingOffsets=f'{{"{filled}": {{"broker-a": {{"99": 1}}}}}}')


def test_topics_are_named_listed_or_matched(box: ThreadBox, filled: str) -> None:
    other = f"{filled}-more"
    box.send(other, texts(other, 1), queue=0, broker="broker-b")

    assert 101 == len(batch_of(box, f"{filled}, {other}"))
    assert 101 == len(batch_of(box, "", topicPattern=f"{filled}(-more)?"))
    assert 1 == len(batch_of(box, "", topicPattern=f"{filled}-.*"))
    with pytest.raises(ConfigurationError, match=r"topic nobody-made-this: no name server of .* knows it"):
        batch_of(box, "nobody-made-this")


def test_pieces_are_cut_where_asked(box: ThreadBox, filled: str) -> None:
    assert 1 == len(source(box, filled).reader(SCHEMA).partitions())
    assert 5 == len(source(box, filled, minPartitions="5").reader(SCHEMA).partitions())
    reader = source(box, filled, maxRecordsPerPartition="30").reader(SCHEMA)
    assert 4 == len(reader.partitions())
    assert list(range(100)) == [row["offset"] for row in rows(reader, reader.partitions())]


def test_tags_are_filtered_and_bodies_left_out(box: ThreadBox, filled: str) -> None:
    box.send(filled, texts(filled, 5, tags="blue"), queue=0, broker="broker-a")

    blue = batch_of(box, filled, tags="blue", includeBody="false")

    assert [100, 101, 102, 103, 104] == [row["offset"] for row in blue]
    assert {None} == {row["body"] for row in blue}


def test_an_expression_over_properties_is_filtered_at_the_broker(box: ThreadBox, topic: str) -> None:
    messages = [Message(topic, f"m{n}", properties={"price": str(n)}) for n in range(10)]
    box.send(topic, messages, queue=0, broker="broker-a")

    assert [b"m7", b"m8", b"m9"] == [row["body"] for row in batch_of(box, topic, sql="price > 6")]


def test_a_schema_chooses_columns(box: ThreadBox, filled: str) -> None:
    chosen = StructType([StructField("offset", LongType()), StructField("key", StringType())])
    reader = source(box, filled).reader(chosen)
    assert {"offset": 0, "key": "k"} == rows(reader, reader.partitions())[0]

    with pytest.raises(ConfigurationError, match="no column 'value'; choose among topic, broker"):
        source(box, filled).reader(StructType([StructField("value", StringType())]))
    with pytest.raises(ConfigurationError, match="column body is binary, not string; cast it after reading"):
        source(box, filled).reader(StructType([StructField("body", StringType())]))


def test_a_stream_reads_what_is_new_and_no_message_twice(box: ThreadBox, filled: str, stream: Streams) -> None:
    reader = stream(topic=filled)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    assert 100 == len(rows(reader, reader.partitions(start, end)))
    assert end == reader.latestOffset(end, ALL)
    assert [] == reader.partitions(end, end)

    box.send(filled, texts(filled, 3), queue=0, broker="broker-a")
    later = reader.latestOffset(end, ALL)

    assert [100, 101, 102] == [row["offset"] for row in rows(reader, reader.partitions(end, later))]
    assert flat(later) == flat(reader.reportLatestOffset() or {})
    assert start == reader.initialOffset()
    assert flat(later) == flat(stream(topic=filled, startingOffsets="latest").initialOffset())
    reader.stop()


def test_limits_of_a_trigger(box: ThreadBox, filled: str, stream: Streams) -> None:
    reader = stream(topic=filled, maxOffsetsPerTrigger="30", minOffsetsPerTrigger="20", maxTriggerDelay="1h")
    limit = reader.getDefaultReadLimit()
    assert ReadMaxRows(30) == limit
    ends = [reader.initialOffset()]
    for _ in range(4):
        ends.append(reader.latestOffset(ends[-1], limit))

    assert [0, 30, 60, 90, 90] == [end[filled]["broker-a"]["0"] for end in ends], "the last 10 are too few"
    assert 100 == reader.latestOffset(ends[-1], ALL)[filled]["broker-a"]["0"]
    least = stream(topic=filled, minOffsetsPerTrigger="200", maxTriggerDelay="0s")
    assert ReadMinRows(200) == least.getDefaultReadLimit()
    assert 100 == least.latestOffset(ends[0], ReadMinRows(200))[filled]["broker-a"]["0"], "the delay is over"
    assert ALL == stream(topic=filled).getDefaultReadLimit()


def test_the_lag_is_asked_for_once_a_trigger(
    box: ThreadBox, filled: str, monkeypatch: pytest.MonkeyPatch, stream: Streams
) -> None:
    asked: list[int] = []

    def note(request: Request) -> bool:
        asked.append(request.command.code)
        return False

    reader = stream(topic=filled)
    start = reader.initialOffset()
    undo = box.broker.intercept(Interceptor(code=RequestCode.GET_MAX_OFFSET, times=None, when=note))
    try:
        monkeypatch.setattr("framework_spark.survey.RECENT_SECONDS", 3600.0)
        end = reader.latestOffset(start, ALL)
        once = len(asked)
        assert flat(end) == flat(reader.reportLatestOffset() or {})
        assert once == len(asked)
        monkeypatch.setattr("framework_spark.survey.RECENT_SECONDS", 0.0)
        box.send(filled, texts(filled, 1), queue=0, broker="broker-a")
        assert 101 == (reader.reportLatestOffset() or {})[filled]["broker-a"]["0"]
    finally:
        undo()


def test_what_is_available_now_ends_where_it_was_then(box: ThreadBox, filled: str, stream: Streams) -> None:
    reader = stream(topic=filled, minOffsetsPerTrigger="1000")
    start = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    box.send(filled, texts(filled, 3), queue=0, broker="broker-a")

    end = reader.latestOffset(start, ReadMinRows(1000))

    assert 100 == end[filled]["broker-a"]["0"]
    assert end == reader.latestOffset(end, ReadMinRows(1000))


def test_new_queues_topics_and_brokers_appear(
    box: ThreadBox, filled: str, monkeypatch: pytest.MonkeyPatch, stream: Streams
) -> None:
    monkeypatch.setattr("framework_spark.survey.REFRESH_SECONDS", 0.0)
    reader = stream(topicPattern=f"{filled}.*")
    end = reader.latestOffset(reader.initialOffset(), ALL)
    for topic in (filled, f"{filled}-new"):
        box.send(topic, texts(topic, 2), queue=0, broker="broker-b")

    later = reader.latestOffset(end, ALL)

    found = rows(reader, reader.partitions(end, later))
    assert {(filled, "broker-b", 0), (f"{filled}-new", "broker-b", 0)} == {
        (row["topic"], row["broker"], row["queueId"]) for row in found
    }
    assert 4 == len(found)


def test_offsets_are_mirrored_once_they_are_done(box: ThreadBox, filled: str, reader: Reader, stream: Streams) -> None:
    """The end of a batch comes back as the next start: also that of the last one, whose commit never comes."""
    ours, queue = stream(topic=filled, group="revenue", maxOffsetsPerTrigger="60"), queue_of(filled)
    start = ours.initialOffset()
    first = ours.latestOffset(start, ReadMaxRows(60))
    assert 0 == reader.committed("revenue", queue), "nothing is done yet"

    second = ours.latestOffset(first, ReadMaxRows(60))
    assert 60 == reader.committed("revenue", queue)
    ours.commit(second)
    assert 100 == reader.committed("revenue", queue)
    ours.commit(first)
    assert 100 == reader.committed("revenue", queue), "never back within a run"

    again = stream(topic=filled, group="revenue")
    again.latestOffset(first, ALL)
    assert 60 == reader.committed("revenue", queue), "the checkpoint is the truth when a query starts"


def test_a_mirror_that_fails_is_no_reason_to_stop(
    box: ThreadBox, filled: str, reader: Reader, capsys: pytest.CaptureFixture[str], stream: Streams
) -> None:
    ours = stream(topic=filled, group="unlucky")
    start = ours.initialOffset()
    no = Interceptor(
        code=RequestCode.UPDATE_CONSUMER_OFFSET,
        answer=lambda _: RemotingCommand(ResponseCode.NO_PERMISSION),
        times=None,
    )
    undo = box.broker.intercept(no)
    try:
        end = ours.latestOffset(start, ALL)
    finally:
        undo()

    assert "offset of group unlucky not mirrored" in capsys.readouterr().err
    ours.commit(end)
    assert 100 == reader.committed("unlucky", queue_of(filled))


def test_a_name_server_that_cannot_be_reached_is_one_error() -> None:
    given = {"nameservers": "127.0.0.1:1", "topic": "orders", "brokerwait": "0s"}
    reader = RocketMQ(CaseInsensitiveDict(given)).reader(SCHEMA)

    with pytest.raises(BrokerUnreachable, match="no name server answers"):
        reader.partitions()


def test_a_broker_that_dies_in_the_middle_is_one_error(topic: str) -> None:
    with thread_box() as box:
        box.send(topic, texts(topic, 100), queue=0)
        reader = source(box, topic, brokerWait="0s").reader(SCHEMA)
        pieces = reader.partitions()
        box.call(box.broker.stop)

        with pytest.raises(BrokerUnreachable, match=f"{topic}@broker-a:0 from offset 0: 4 attempts failed; the last: "):
            rows(reader, pieces)


def test_a_stream_waits_for_one_broker_of_several(
    topic: str, capsys: pytest.CaptureFixture[str], stream: Streams
) -> None:
    """Its queues stay where they are; a query that reads from others goes on."""
    with thread_box(brokers=2) as box:
        for broker in ("broker-a", "broker-b"):
            box.send(topic, texts(topic, 5), queue=0, broker=broker)
        ours = stream(topic=topic, nameServers=box.address)
        start = ours.initialOffset()
        box.broker.intercept(
            Interceptor(
                code=RequestCode.GET_MAX_OFFSET,
                answer=lambda _: RemotingCommand(ResponseCode.GO_AWAY),
                times=None,
                when=lambda request: request.node.name == "broker-b",
            )
        )
        end = ours.latestOffset(start, ALL)

    assert ({"0": 5}, {"0": 0}) == (_first(end[topic]["broker-a"]), _first(end[topic]["broker-b"]))


def _first(queues: dict[str, int]) -> dict[str, int]:
    return {"0": queues["0"]}


def test_a_group_that_gets_a_copy_has_the_retry_topic_by_which_it_is_found(
    box: ThreadBox, reader: Reader, filled: str, capsys: pytest.CaptureFixture[str], stream: Streams
) -> None:
    """One queue at the brokers that hold the topic, once; and a broker that refuses it stops nothing."""
    group, asked = f"shown-{filled}", []

    def refused(request: Request) -> RemotingCommand:
        asked.append(request.command.fields["topic"])
        return RemotingCommand(ResponseCode.NO_PERMISSION, remark="not you")

    undo = box.broker.intercept(Interceptor(code=RequestCode.UPDATE_AND_CREATE_TOPIC, answer=refused, times=None))
    try:
        hidden = stream(topic=filled, group=group)
        for upto in (1, 2):
            hidden.commit({filled: {"broker-a": {"0": upto}}})
    finally:
        undo()

    assert [f"%RETRY%{group}"] == asked
    assert 2 == reader.committed(group, queue_of(filled))
    assert "group has no retry topic" in capsys.readouterr().err
    stream(topic=filled, group=group).commit({filled: {"broker-a": {"0": 3}}})
    assert [MessageQueue(f"%RETRY%{group}", "broker-a", 0)] == reader.queues(f"%RETRY%{group}")
