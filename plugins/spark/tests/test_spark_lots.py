"""The transactional sink: rows are half messages until their epoch is committed, and each is seen once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from framework_spark import lots
from framework_spark.answering import Answering
from framework_spark.datasource import RocketMQ
from framework_spark.options import SinkOptions, sink_options
from framework_spark.outgoing import Outgoing
from framework_spark.sink import Sent, StreamWriter
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from framework.broker.intercept import Interceptor
from framework.broker.store.topics import Topic
from framework.errors import ConfigurationError
from framework.reading import Reader
from framework.wire.codes import RequestCode, ResponseCode
from framework.wire.command import RemotingCommand
from tests.patience import wait_until
from tests.reading.threads import ThreadBox, texts

BODY = StructType([StructField("body", BinaryType())])
BUSY = RemotingCommand(ResponseCode.SYSTEM_BUSY)


def options_of(address: str, **more: str) -> dict[str, str]:
    return {
        "nameServers": address, "transactional": "true", "checkpointLocation": "/x", "unconfirmedWait": "0s",
        "brokerWait": "20s", **more,
    }  # fmt: skip


def batches(*bodies: str) -> Any:
    return iter([pa.RecordBatch.from_pydict({"body": [each.encode() for each in bodies]})])


def prepared(options: SinkOptions, rows: Any, name: str, lot: int, partition: int) -> tuple[int, bytes]:
    """As a task does it; how many rows left, and its message to the driver."""
    outgoing = Outgoing(options, rows, f"{name}/{lot}/{partition}")
    data = lots.prepared(options, outgoing, name, lot)
    return outgoing.sent, data


def seen(reader: Reader, topic: str) -> list[bytes]:
    return sorted(
        (body or b"")
        for queue in reader.queues(topic)
        for columns in reader.read(queue, 0, reader.max_offset(queue))
        for body in columns.bodies
    )


def test_rows_are_seen_when_their_epoch_is_committed_and_once_if_spark_repeats_it(
    box: ThreadBox, reader: Reader, topic: str
) -> None:
    options = sink_options(options_of(box.address, topic=topic))
    parts = [prepared(options, batches("a", "b"), f"q-{topic}", 0, 0)]
    parts.append(prepared(options, batches("c"), f"q-{topic}", 0, 1))
    assert [2, 1] == [count for count, _ in parts]
    assert [] == seen(reader, topic)
    for _ in range(2):
        lots.settle(options, f"q-{topic}", 0, [data for _, data in parts])
        assert [b"a", b"b", b"c"] == seen(reader, topic)

    again = prepared(options, batches("a", "b"), f"q-{topic}", 0, 0)  # its records were not asked for
    lots.settle(options, f"q-{topic}", 0, [again[1]])
    assert [b"a", b"b", b"c"] == seen(reader, topic)
    following = prepared(options, batches("d"), f"q-{topic}", 1, 0)
    lots.settle(options, f"q-{topic}", 1, [following[1]])
    assert (0, b"") == prepared(options, batches("d"), f"q-{topic}", 1, 0)
    assert [b"a", b"b", b"c", b"d"] == seen(reader, topic)


@pytest.mark.parametrize(
    ("is_write", "complaint", "note"),
    [
        (False, "batch 1 of query {name} comes after 2.* its checkpoint was set back", "batch 2 of query {name} was"),
        (True, "txnVersion=1 of txnAppId='{name}' comes after 2.* numbers only grow", "txnVersion=2 of txnAppId="),
    ],
)
def test_a_number_that_is_lower_than_a_written_one_is_refused_and_an_equal_one_noted(
    box: ThreadBox, reader: Reader, topic: str, capfd: pytest.CaptureFixture[str], *,
    is_write: bool, complaint: str, note: str,
) -> None:  # fmt: skip
    """As after a checkpoint that was set back: such a batch may have other rows, which would be nowhere."""
    name, records = f"q-{topic}", f"{topic}-records"
    box.call(lambda: _create(box, records))
    given = options_of(box.address, topic=topic, recordTopic=records)
    options = sink_options(
        {**given, "txnAppId": name, "txnVersion": "1"} if is_write else given, streaming=not is_write
    )
    for lot in (0, 2):
        lots.settle(options, name, lot, [prepared(options, batches(f"m{lot}"), name, lot, 0)[1]])
    assert "" == capfd.readouterr().err

    with pytest.raises(ConfigurationError, match=complaint.format(name=name)):
        prepared(options, batches("other"), name, 1, 0)
    with pytest.raises(ConfigurationError, match=complaint.format(name=name)):
        lots.settle(options, name, 1, [b""])
    assert (0, b"") == prepared(options, batches("other"), name, 2, 0)
    lots.settle(options, name, 2, [b""])
    assert f"{note.format(name=name)}" in capfd.readouterr().err
    assert [b"m0", b"m2"] == seen(reader, topic)


def test_an_epoch_with_a_failed_task_is_dropped_and_one_that_may_be_decided_is_not(
    box: ThreadBox, reader: Reader, topic: str
) -> None:
    writer = StreamWriter(sink_options(options_of(box.address, topic=topic)), BODY)
    ended: list[dict[str, str]] = []

    def note(request: Any) -> bool:
        ended.append(request.command.fields)
        return False

    undo = box.broker.intercept(Interceptor(code=RequestCode.END_TRANSACTION, times=None, when=note))
    _, data = prepared(writer._options, batches("a", "b"), f"q-{topic}", 0, 0)
    sent = Sent(2, query=f"q-{topic}", prepared=data)
    writer.abort([sent], 0)
    assert [] == ended
    writer.abort([sent, None], 0)
    undo()

    assert ["12", "12"] == [fields["commitOrRollback"] for fields in ended]
    assert [] == seen(reader, topic)


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        ({"checkpointLocation": ""}, "give option checkpointLocation as well"),
        ({"batchSize": "7"}, "option batchSize: half messages leave one by one"),
        ({"txnAppId": "x"}, "a stream has an id and numbers its batches"),
        ({"unconfirmedWait": "soon"}, "option unconfirmedWait='soon': write a duration"),
        ({"recordTopic": "a b"}, "topic 'a b'"),
        ({"recordTopic": "t"}, "option recordTopic='t': rows go to this topic"),
        ({"transactional": "yes"}, "option transactional='yes': write true or false"),
        ({"transactional": "false"}, "it means nothing without transactional=true"),
    ],
)
def test_options_that_cannot_work_are_named(more: dict[str, str], complaint: str) -> None:
    given = {name: value for name, value in options_of("a:1", topic="t", **more).items() if value}
    with pytest.raises(ConfigurationError, match=complaint):
        RocketMQ(CaseInsensitiveDict(given)).streamWriter(BODY, overwrite=False)


def test_a_row_to_the_topic_of_records_is_refused(box: ThreadBox, topic: str) -> None:
    records = f"{topic}-records"
    box.call(lambda: _create(box, records))
    row = pa.RecordBatch.from_pydict({"body": [b"x"], "topic": [records]})
    with pytest.raises(ConfigurationError, match=f"sink, row q/0/0/0: topic {records} is the sink's recordTopic"):
        prepared(sink_options(options_of(box.address, recordTopic=records)), iter([row]), "q", 0, 0)


def test_a_delay_is_refused_before_anything_is_sent() -> None:
    schema = StructType([*BODY.fields, StructField("delay", IntegerType())])
    with pytest.raises(ConfigurationError, match="half messages have no delay"):
        RocketMQ(CaseInsensitiveDict(options_of("a:1", topic="t"))).streamWriter(schema, overwrite=False)


@pytest.mark.parametrize(
    "more", [{}, {"txnAppId": "a", "txnVersion": "1"}, {"txnAppId": "a", "recordTopic": "r", "txnVersion": "-1"}]
)
def test_a_batch_write_needs_a_name_and_a_number_of_its_own(more: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match=r"txnAppId and txnVersion, as Delta's does|from 0 on"):
        RocketMQ(CaseInsensitiveDict(options_of("a:1", topic="t", **more))).writer(BODY, overwrite=False)


@pytest.mark.timeout(600)
def test_a_stream_and_a_write_in_spark_whatever_is_repeated(
    spark: Any, box: ThreadBox, reader: Reader, topic: str, tmp_path: Path
) -> None:
    """A commit that fails in the middle, and a write that is done twice. A batch that is done and runs again:
    tests/interop/test_spark.py.
    """
    source, records = f"{topic}-source", f"{topic}-records"
    box.call(lambda: _create(box, records))
    given = options_of(box.address, topic=topic, checkpointLocation=str(tmp_path / "checkpoint"))

    def run(**more: str) -> Any:
        frame = spark.readStream.format("rocketmq").options(
            nameServers=box.address, topic=source, startingOffsets="earliest"
        )
        query = frame.load().select("body").writeStream.format("rocketmq").options(**given | more)
        query = query.trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        except Exception as error:  # noqa: BLE001  # Spark's, which is looked at
            return error
        return None

    box.send(source, texts(source, 20), queue=0)
    undo = box.broker.intercept(
        Interceptor(code=RequestCode.END_TRANSACTION, answer=lambda _: BUSY, times=None, when=_beyond(7))
    )
    assert "half messages could not be committed" in str(run(brokerWait="0s"))
    assert 7 == len(seen(reader, topic))
    undo()
    assert run() is None
    assert Counter(f"m{n}".encode() for n in range(20)) == Counter(seen(reader, topic))

    write = {name: value for name, value in given.items() if name != "checkpointLocation"}
    for version in (3, 3):
        frame = spark.createDataFrame([(f"w{version}",)], "body string")
        frame.write.format("rocketmq").options(**write, txnAppId="nightly", txnVersion=str(version)).option(
            "recordTopic", records
        ).mode("append").save()
    assert [b"w3"] == [body for body in seen(reader, topic) if body.startswith(b"w")]


async def _create(box: ThreadBox, topic: str) -> None:
    box.broker.nodes[0].rules.topics.put(topic, Topic(name=topic, read_queues=1, write_queues=1))


def _beyond(count: int) -> Any:
    """True for all requests but the first ones."""
    left = [count]

    def beyond(_: object) -> bool:
        left[0] -= 1
        return left[0] < 0

    return beyond


def _switch(box: ThreadBox, settings: dict[str, str]) -> None:
    for node in box.broker.nodes:
        for name, value in settings.items():
            node.switches.put(name, value)


def test_a_member_that_outlives_the_driver_answers_for_it(box: ThreadBox, reader: Reader, topic: str) -> None:
    """What a failed attempt left is asked about, and rolled back once the epoch is over; until then it stays."""
    before = {"transactionTimeOut": "6000", "transactionCheckInterval": "30000", "transactionCheckMax": "15"}
    soon = {"transactionTimeOut": "100", "transactionCheckInterval": "100", "transactionCheckMax": "10000"}
    _switch(box, soon)  # what is prepared before that is asked about after six seconds
    options = sink_options(options_of(box.address, topic=topic))
    name = f"q-{topic}"
    _, orphan = prepared(options, batches("orphan"), name, 0, 0)
    _, kept = prepared(options, batches("kept"), name, 0, 0)
    assert orphan
    answers: list[tuple[str, str]] = []

    def note(request: Any) -> bool:
        answers.append((request.command.fields["fromTransactionCheck"], request.command.fields["commitOrRollback"]))
        return False

    undo = box.broker.intercept(Interceptor(code=RequestCode.END_TRANSACTION, times=None, when=note))
    try:
        with Answering(nameServers=box.address):
            wait_until(lambda: ("true", "0") in answers, "a question about what is not decided", 120)
            assert ("true", "12") not in answers
            lots.settle(options, name, 0, [kept])
            wait_until(lambda: ("true", "12") in answers, "an answer about what is over", 120)
    finally:
        undo()
        _switch(box, before)
    assert ("true", "8") not in answers
    assert [b"kept"] == seen(reader, topic)


def test_who_answers_takes_the_sink_s_options() -> None:
    with pytest.raises(ConfigurationError, match="unknown option 'nameServer'"):
        Answering(nameServer="a:1")
    with pytest.raises(ConfigurationError, match="only a transactional sink is asked"):
        Answering(nameServers="a:1", transactional="false")
