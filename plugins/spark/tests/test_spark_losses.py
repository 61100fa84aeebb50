"""What a query does about messages that are gone, or damaged: an error, or with failOnDataLoss=false a warning."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from framework_spark.counting import Sums
from framework_spark.datasource import RocketMQ
from framework_spark.settling import settle
from framework_spark.source import StreamReader
from framework_spark.survey import DataLost
from pyspark.sql.datasource import CaseInsensitiveDict, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import StructType
from structlog.testing import capture_logs

from framework.broker.intercept import Interceptor
from framework.broker.request import Request
from framework.errors import ConfigurationError, ProtocolError
from framework.model.queue import MessageQueue
from framework.reading import Reader, ReaderSettings
from framework.wire.codes import RequestCode
from framework.wire.command import RemotingCommand
from tests.reading.threads import ThreadBox, texts

ALL = ReadAllAvailable()
COUNT = 100
Harm = Callable[[bytearray], None]
LENIENT = {"failOnDataLoss": "false"}


@pytest.fixture
def filled(box: ThreadBox, topic: str) -> str:
    """A topic with m0 to m99 in queue 0 of broker-a."""
    box.send(topic, texts(topic, COUNT, tags="red", keys=["k"]), queue=0, broker="broker-a")
    return topic


def queue_of(topic: str) -> MessageQueue:
    return MessageQueue(topic, "broker-a", 0)


def offsets_of(topic: str, offset: int) -> str:
    return json.dumps({topic: {"broker-a": {"0": offset}}})


def source(box: ThreadBox, topic: str, **options: Any) -> RocketMQ:
    return RocketMQ(CaseInsensitiveDict({"nameservers": box.address, "topic": topic, **options}))


def batch_of(box: ThreadBox, topic: str, **options: Any) -> list[dict[str, Any]]:
    read = source(box, topic, **options)
    reader = read.reader(read.schema())
    return rows(reader, reader.partitions())


def rows(reader: Any, pieces: Sequence[InputPartition]) -> list[dict[str, Any]]:
    return [row for piece in pieces for batch in reader.read(piece) for row in batch.to_pylist()]


@contextmanager
def damaged(
    box: ThreadBox, topic: str, record: int, harm: Harm, also: tuple[int, Harm] | None = None
) -> Iterator[None]:
    """Pulls bring the stored records as they are, but for this one, or two."""
    queue = queue_of(topic)
    with Reader(ReaderSettings((box.address,))) as reader:
        data = b"".join(reader.pull(queue, at, COUNT).data for at in range(0, COUNT, 32))
    records: list[bytearray] = []
    while len(records) < COUNT:
        (size,) = struct.unpack_from(">i", data, 0)
        (offset,) = struct.unpack_from(">q", data, 20)
        if offset == len(records):
            records.append(bytearray(data[:size]))
        data = data[size:]
    harm(records[record])
    if also is not None:
        also[1](records[also[0]])

    def answer(request: Request) -> RemotingCommand:
        begin = int(request.command.fields["queueOffset"])
        end = min(begin + int(request.command.fields["maxMsgNums"]), COUNT)
        fields = {"suggestWhichBrokerId": "0", "minOffset": "0", "maxOffset": f"{COUNT}", "nextBeginOffset": f"{end}"}
        return RemotingCommand(0, fields, b"".join(records[begin:end]))

    undo = box.broker.intercept(Interceptor(code=RequestCode.LITE_PULL_MESSAGE, answer=answer, times=None))
    try:
        yield
    finally:
        undo()


def test_lost_messages_fail_a_query_or_are_passed_over(
    box: ThreadBox, filled: str, stream: Callable[..., StreamReader], capsys: pytest.CaptureFixture[str]
) -> None:
    box.keep_from(queue_of(filled), 40)
    start = {filled: {"broker-a": {"0": 10}}}
    strict, lenient = (
        stream(topic=filled, brokerWait="0s"),
        stream(topic=filled, brokerWait="0s", failOnDataLoss="false"),
    )
    end = lenient.latestOffset(start, ALL)

    for planned in (lambda: strict.latestOffset(start, ALL), lambda: rows(strict, strict.partitions(start, end))):
        with pytest.raises(
            DataLost, match=r"offsets 10 to 39 are gone.*; option failOnDataLoss=false goes on without them"
        ):
            planned()
    assert list(range(40, 100)) == [row["offset"] for row in rows(lenient, lenient.partitions(start, end))]

    gone = {filled: {"broker-a": {"0": 10}, "broker-z": {"3": 7}}}
    with pytest.raises(DataLost, match=f"{filled}@broker-z:3 is in the checkpoint at offset 7 and in no route"):
        strict.latestOffset(gone, ALL)
    assert {"3": 7} == lenient.latestOffset(gone, ALL)[filled]["broker-z"]
    lenient.latestOffset(gone, ALL)
    assert 1 == capsys.readouterr().err.count("broker-z:3 is in the checkpoint"), "said once"

    shorter = {filled: {"broker-a": {"0": 500}}}
    with pytest.raises(DataLost, match="ends at offset 100, and the checkpoint is at 500"):
        strict.latestOffset(shorter, ALL)
    assert 100 == lenient.latestOffset(shorter, ALL)[filled]["broker-a"]["0"]


@pytest.mark.parametrize("end", [5, 99])
def test_available_now_fails_where_a_queue_became_shorter(
    box: ThreadBox, filled: str, end: int, stream: Callable[..., StreamReader]
) -> None:
    """A topic that was made anew while the query was down: no batch at all would look like success."""
    checkpoint = {filled: {"broker-a": {"0": 500}}}
    strict, lenient = stream(topic=filled), stream(topic=filled, **LENIENT)
    for reader in (strict, lenient):
        reader.prepareForTriggerAvailableNow()

    with pytest.raises(DataLost, match=r"ends at offset 100, and the checkpoint is at 500.*failOnDataLoss=false"):
        strict.latestOffset(checkpoint, ReadMaxRows(end))
    later = lenient.latestOffset(checkpoint, ReadMaxRows(end))
    assert 100 == later[filled]["broker-a"]["0"]
    assert [] == lenient.partitions(checkpoint, later)


def test_a_start_beyond_the_end_is_an_error_and_in_no_checkpoint(
    box: ThreadBox, filled: str, stream: Callable[..., StreamReader], capsys: pytest.CaptureFixture[str]
) -> None:
    beyond = {"startingOffsets": offsets_of(filled, 101)}
    said = f"startingOffsets: {filled}@broker-a:0 ends at offset 100, and the option says 101"

    with pytest.raises(DataLost, match=f"{said}; option failOnDataLoss=false"):
        stream(topic=filled, **beyond).initialOffset()
    with pytest.raises(DataLost, match=said):
        batch_of(box, filled, **beyond)
    assert 100 == stream(topic=filled, **beyond, **LENIENT).initialOffset()[filled]["broker-a"]["0"]
    assert said in capsys.readouterr().err
    assert 100 == stream(topic=filled, startingOffsets=offsets_of(filled, 100)).initialOffset()[filled]["broker-a"]["0"]


def test_an_end_beyond_the_end_is_an_error(box: ThreadBox, filled: str) -> None:
    with pytest.raises(DataLost, match=r"endingOffsets: .* ends at offset 100, and the option says 200"):
        batch_of(box, filled, endingOffsets=offsets_of(filled, 200))
    assert COUNT == len(batch_of(box, filled, endingOffsets=offsets_of(filled, 200), **LENIENT))


def test_bounds_that_are_swapped_are_an_error(box: ThreadBox, filled: str) -> None:
    with pytest.raises(
        ConfigurationError,
        match="starting options the range begins at offset 30, and by the ending ones it ends before it, at 20",
    ):
        batch_of(box, filled, startingOffsets=offsets_of(filled, 30), endingOffsets=offsets_of(filled, 20))


def _flip_body(record: bytearray) -> None:
    record[88] ^= 1


def _lie_of_properties(record: bytearray) -> None:
    at = 88 + struct.unpack_from(">i", record, 84)[0]
    properties_at = at + 1 + record[at]
    record[properties_at : properties_at + 2] = b"\x7f\xff"


def _no_magic(record: bytearray) -> None:
    record[4:8] = bytes(4)


def _lie_of_size(record: bytearray) -> None:
    record[0:4] = struct.pack(">i", 1 << 30)


def _no_size(record: bytearray) -> None:
    record[0:4] = bytes(4)


def _lie_of_size_and_offset(record: bytearray) -> None:
    record[0:4] = struct.pack(">i", -7)
    record[20:28] = b"\xff" * 8


@pytest.mark.parametrize("record", [0, 31, 32, 57, 99])
@pytest.mark.parametrize("harm", [_lie_of_properties, _no_magic, _lie_of_size, _no_size, _lie_of_size_and_offset])
def test_a_damaged_record_fails_a_query_or_is_passed_over(
    box: ThreadBox, filled: str, record: int, harm: Callable[[bytearray], None], capsys: pytest.CaptureFixture[str]
) -> None:
    with damaged(box, filled, record, harm):
        with pytest.raises(ProtocolError, match=f"{filled}@broker-a:0"):
            batch_of(box, filled)
        found = batch_of(box, filled, **LENIENT)

    assert [offset for offset in range(COUNT) if offset != record] == [row["offset"] for row in found]
    assert [b"m%d" % offset for offset in range(COUNT) if offset != record] == [row["body"] for row in found]
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(rf"framework_spark: {filled}@broker-a:0.*; going on, as failOnDataLoss=false says", line)


@pytest.mark.parametrize("record", [0, 99])
def test_a_damaged_body_fails_a_query_or_is_null(
    box: ThreadBox, filled: str, record: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with damaged(box, filled, record, _flip_body):
        with pytest.raises(ProtocolError, match=f"queue offset {record}: body's checksum"):
            batch_of(box, filled)
        found = batch_of(box, filled, **LENIENT)

    assert [None if offset == record else b"m%d" % offset for offset in range(COUNT)] == [row["body"] for row in found]
    assert "the row has no body" in capsys.readouterr().err


def _no_codec(record: bytearray) -> None:
    """Its sysFlag says that the body is compressed, which it is not; no checksum tells."""
    record[39] |= 1


def _offset_of_another(record: bytearray) -> None:
    record[27] ^= 1


HARMS = [
    _flip_body,
    _no_codec,
    _offset_of_another,
    _lie_of_properties,
    _no_magic,
    _lie_of_size,
    _lie_of_size_and_offset,
]


@pytest.mark.parametrize("record", [0, 32, 57, 99])
@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("loss", ["true", "false"])
def test_damaged_messages_are_rows_with_an_error_or_left_out_or_fail(
    box: ThreadBox,
    filled: str,
    record: int,
    harm: Callable[[bytearray], None],
    loss: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As `damaged` says, whatever `failOnDataLoss` is: nothing is gone."""
    others = [(offset, b"m%d" % offset) for offset in range(COUNT) if offset != record]
    options = {"failOnDataLoss": loss}
    with damaged(box, filled, record, harm):
        with pytest.raises(ProtocolError, match=rf"{filled}@broker-a:0.*; option damaged=column makes"):
            batch_of(box, filled, damaged="fail", **options)
        kept = batch_of(box, filled, damaged="column", **options)
        assert "" == capsys.readouterr().err, "the rows say it"
        skipped = batch_of(box, filled, damaged="skip", **options)

    assert list(range(COUNT)) == [row["offset"] for row in kept]
    assert others == [(row["offset"], row["body"]) for row in kept if row["error"] is None]
    (bad,) = [row for row in kept if row["error"] is not None]
    assert (filled, "broker-a", 0, None) == (bad["topic"], bad["broker"], bad["queueId"], bad["body"])
    assert f"{filled}@broker-a:0" in bad["error"]
    assert ("red" if harm in (_flip_body, _no_codec) else None) == bad["tag"], "what can be read is there"
    assert others == [(row["offset"], row["body"]) for row in skipped]
    assert "left out, as damaged=skip says" in capsys.readouterr().err


@pytest.mark.parametrize("options", [{"damaged": "skip"}, {"damaged": "column"}, LENIENT])
def test_damaged_messages_are_counted_and_each_is_named(
    box: ThreadBox, filled: str, options: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """By its offset, whichever columns are asked for."""
    counted: dict[str, dict[str, int]] = {}

    class Total:
        def add(self, more: dict[str, dict[str, int]]) -> None:
            Sums().addInPlace(counted, more)

    ours = source(box, filled, **options)
    ours.totals = Total()
    names = ("body", "error") if options.get("damaged") == "column" else ("body",)
    reader = ours.reader(StructType([ours.schema()[name] for name in names]))
    with damaged(box, filled, 31, _no_magic, also=(57, _flip_body)):
        rows(reader, reader.partitions())

    assert 2 == counted[""]["passed_over"]
    said = capsys.readouterr().err
    assert options.get("damaged") == "column" or ("offset 31" in said and "offset 57" in said)


@pytest.mark.parametrize("harm", [_no_magic, _offset_of_another])
def test_a_damaged_message_that_a_handler_fails_does_not_hold_its_batch_up(
    box: ThreadBox, filled: str, reader: Reader, harm: Harm
) -> None:
    """No broker can be asked for a copy of what cannot be read; the next one is copied."""
    rows = [{"topic": filled, "broker": "broker-a", "queueId": 0, "offset": at, "verdict": "retry"} for at in (57, 58)]
    given: Any = SimpleNamespace(group=filled, max_retries=0)

    with damaged(box, filled, 57, harm), capture_logs() as lines:
        assert 1 == settle(rows, given, ReaderSettings((box.address,)))

    (line,) = [line for line in lines if line["log_level"] == "error"]
    assert "57" in line["reason"]
    assert 1 == sum(reader.max_offset(queue) for queue in reader.queues(f"%DLQ%{filled}"))


def test_a_stream_gives_damaged_messages_as_rows_and_fails_for_those_that_are_gone(
    box: ThreadBox, filled: str, stream: Callable[..., StreamReader]
) -> None:
    reader = RocketMQ(
        CaseInsensitiveDict({"nameservers": box.address, "topic": filled, "damaged": "column", "brokerWait": "0s"})
    )
    wanted = StructType([reader.schema()[name] for name in ("error", "offset")])
    narrow = reader.streamReader(wanted)
    start = {filled: {"broker-a": {"0": 50}}}
    try:
        end = narrow.latestOffset(start, ALL)
        with damaged(box, filled, 57, _flip_body):
            found = rows(narrow, narrow.partitions(start, end))
        assert [["error", "offset"]] * 50 == [list(row) for row in found]
        assert [57] == [row["offset"] for row in found if row["error"]], "bodies are looked at, though not asked for"
        box.keep_from(queue_of(filled), 60)
        with pytest.raises(DataLost, match="offsets 50 to 59 are gone"):
            rows(narrow, narrow.partitions(start, end))
    finally:
        narrow.stop()


def test_a_damaged_record_has_no_tag_that_is_wanted(
    box: ThreadBox, filled: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with damaged(box, filled, 7, _no_magic):
        found = batch_of(box, filled, damaged="column", where="tag = 'red'")

    assert COUNT - 1 == len(found)
    assert "magic" in capsys.readouterr().err


def test_retention_is_said_where_it_is_passed_over(
    box: ThreadBox, filled: str, capsys: pytest.CaptureFixture[str]
) -> None:
    box.keep_from(queue_of(filled), 40)

    assert 60 == len(batch_of(box, filled, startingOffsets=offsets_of(filled, 10), **LENIENT))
    assert "offsets 10 to 39 are gone" in capsys.readouterr().err
