"""Which queues are read, and where each begins and ends by the time of storing: `assign`, `...OffsetsByTimestamp`."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from framework_spark.datasource import RocketMQ
from framework_spark.offsets import assigned_of
from framework_spark.options import source_options
from framework_spark.schema import SCHEMA
from pyspark.sql.datasource import CaseInsensitiveDict

from framework import Message
from framework.errors import ConfigurationError
from framework.mistakes import NotInCluster
from framework.model.queue import MessageQueue
from framework.reading import Reader, ReaderSettings
from tests.patience import wait_until
from tests.reading.threads import ThreadBox, thread_box

TOPIC = "parts"
NEEDED = {"nameServers": "a:1", "topic": TOPIC}


@pytest.fixture(scope="module")
def parts() -> Iterator[tuple[ThreadBox, dict[MessageQueue, list[int]]]]:
    """Three queues at each of two brokers, five messages in each but the last, and when these were stored."""
    with thread_box(brokers=2) as box, Reader(ReaderSettings((box.address,))) as reader:
        for at in range(5):
            for broker in ("broker-a", "broker-b"):
                for queue in range(3 if broker == "broker-a" else 2):
                    box.send(TOPIC, [Message(TOPIC, f"m{at}")], queue=queue, broker=broker)
            now = int(time.time() * 1000)
            wait_until(lambda now=now: int(time.time() * 1000) > now, "the clock's next millisecond")  # type: ignore[misc]
        yield (
            box,
            {
                queue: [
                    each for columns in reader.read(queue, 0, reader.max_offset(queue)) for each in columns.stored_ms
                ]
                for queue in reader.queues(TOPIC)
                if queue.number < 3
            },
        )


def source(box: ThreadBox, **options: str) -> RocketMQ:
    where = {} if "assign" in options else {"topic": TOPIC}
    return RocketMQ(CaseInsensitiveDict({"nameservers": box.address, **where, **options}))


def pieces_of(box: ThreadBox, **options: str) -> dict[tuple[str, int], tuple[int, int]]:
    pieces: Any = source(box, **options).reader(SCHEMA).partitions()
    return {(each.piece.queue.broker, each.piece.queue.number): (each.piece.begin, each.piece.end) for each in pieces}


ALL = (0, 5)


@pytest.mark.parametrize(
    ("assign", "queues"),
    [
        ({TOPIC: [0]}, {("broker-a", 0), ("broker-b", 0)}),
        ({TOPIC: {"broker-b": [1], "broker-a": [0, 2]}}, {("broker-b", 1), ("broker-a", 0), ("broker-a", 2)}),
    ],
)
def test_only_the_queues_that_are_assigned_are_read(
    parts: tuple[ThreadBox, Any], assign: object, queues: set[tuple[str, int]]
) -> None:
    box, _ = parts
    text = json.dumps(assign)

    assert dict.fromkeys(queues, ALL) == pieces_of(box, assign=text)
    stream = source(box, assign=text, startingOffsets="earliest").streamReader(SCHEMA)
    try:
        offsets = stream.initialOffset()[TOPIC]
        assert queues == {(broker, int(number)) for broker, numbers in offsets.items() for number in numbers}
    finally:
        stream.stop()
    offset = json.dumps({TOPIC: {"broker-a": {"0": 3}, "broker-b": {"0": 1}}})
    assert (3, 5) == pieces_of(box, assign=text, startingOffsets=offset)["broker-a", 0], "others are passed over"
    assert {("broker-a", 0)} == set(pieces_of(box, assign=text, where="broker = 'broker-a' and queueId = 0"))


@pytest.mark.parametrize(
    ("assign", "said"),
    [
        ({TOPIC: [0, 99]}, f"option assign: queue 99 of {TOPIC} is none of the queues that name servers know now"),
        ({TOPIC: {"broker-c": [0]}}, f"option assign: {TOPIC}@broker-c:0 is none of"),
        ({"nowhere": [0]}, "topic nowhere: no name server"),
    ],
)
def test_a_queue_that_is_assigned_and_is_not_there_is_named(
    parts: tuple[ThreadBox, Any], assign: object, said: str
) -> None:
    box, _ = parts
    text = json.dumps(assign)

    with pytest.raises(NotInCluster, match=said):
        pieces_of(box, assign=text)
    stream = source(box, assign=text).streamReader(SCHEMA)
    try:
        with pytest.raises(NotInCluster, match=said):
            stream.initialOffset()
    finally:
        stream.stop()


def test_each_queue_begins_and_ends_at_a_time_of_its_own(
    parts: tuple[ThreadBox, dict[MessageQueue, list[int]]],
) -> None:
    box, stored = parts
    first, second = MessageQueue(TOPIC, "broker-a", 0), MessageQueue(TOPIC, "broker-b", 1)
    third = datetime.fromtimestamp(stored[second][3] / 1000, UTC).isoformat()
    starting = json.dumps({TOPIC: {"broker-a": {"0": stored[first][2]}, "broker-b": {"1": third}}})
    ending = json.dumps({TOPIC: {"broker-a": {"0": stored[first][4]}, "broker-b": {"1": stored[second][4] + 99_999}}})

    found = pieces_of(box, startingOffsetsByTimestamp=starting, endingOffsetsByTimestamp=ending)

    assert {("broker-a", 0): (2, 4), ("broker-b", 1): (3, 5)}.items() <= found.items()
    assert ALL == found["broker-a", 1], "a queue that is not named is read whole"
    stream = source(box, startingOffsetsByTimestamp=starting).streamReader(SCHEMA)
    try:
        offsets = stream.initialOffset()[TOPIC]
        assert (2, 0, 3) == (offsets["broker-a"]["0"], offsets["broker-a"]["1"], offsets["broker-b"]["1"])
    finally:
        stream.stop()


def test_a_time_without_a_message_behind_it_is_the_end_or_an_error(
    parts: tuple[ThreadBox, dict[MessageQueue, list[int]]],
) -> None:
    box, stored = parts
    queue = MessageQueue(TOPIC, "broker-a", 1)
    last = stored[queue][-1]
    assign = json.dumps({TOPIC: {"broker-a": [1]}})
    strict = {"assign": assign, "startingOffsetsByTimestampStrategy": "error"}

    assert {("broker-a", 1): (4, 5)} == pieces_of(box, startingTimestamp=str(last), **strict)
    assert {} == pieces_of(box, assign=assign, startingTimestamp=str(last + 1))
    for late in (
        {"startingTimestamp": str(last + 1)},
        {"startingOffsetsByTimestamp": json.dumps({TOPIC: {"broker-a": {"1": last + 1}}})},
    ):
        with pytest.raises(
            ConfigurationError, match=r"broker-a:1: no message was stored at or after 20.*Strategy=latest"
        ):
            pieces_of(box, **late, **strict)
        assert {} == pieces_of(box, **late, **{**strict, "startingOffsetsByTimestampStrategy": "latest"})


def test_a_beginning_that_is_to_come_is_refused_and_an_end_is_the_end(parts: tuple[ThreadBox, Any]) -> None:
    """It began at the end of the queues, so messages were read that came before the time asked for."""
    box, _ = parts
    later = int(time.time() * 1000) + 2 * 3600_000
    assign = json.dumps({TOPIC: {"broker-a": [1]}})

    for late in (
        {"startingTimestamp": str(later)},
        {"startingOffsetsByTimestamp": json.dumps({TOPIC: {"broker-a": {"1": later}}})},
    ):
        name = next(iter(late))
        with pytest.raises(
            ConfigurationError, match=rf"option {name}: .*broker-a:1 is to begin at 20.*, which is to come"
        ):
            pieces_of(box, assign=assign, **late)
        stream = source(box, assign=assign, **late).streamReader(SCHEMA)
        with pytest.raises(ConfigurationError, match="which is to come; from now on is startingOffsets=latest"):
            stream.initialOffset()
        stream.stop()
    assert pieces_of(box, assign=assign) == pieces_of(box, assign=assign, endingTimestamp=str(later))


@pytest.mark.parametrize(
    "text",
    [
        "[]", "0", "{}", '{"orders": {}}', '{"orders": [-1]}', '{"orders": ["0"]}', '{"orders": [true]}',
        '{"orders": {"a": 1}}', '{"orders": [0], "orders": [1]}', '{"orders": [9223372036854775808]}',
    ],
)  # fmt: skip
def test_what_assigns_no_queue_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"option assign=.*: write \{\"topic\": \{\"broker\": \[0, 1\]\}\}"):
        source_options({"nameServers": "a:1", "assign": text}, streaming=False)
    with pytest.raises(ValueError, match=r"."):
        assigned_of(text)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"assign": '{"orders": [0]}'}, "give either topic or topicPattern or assign"),
        ({"startingOffsetsByTimestamp": '{"a": {"b": {"0": "noon"}}}'}, "option startingOffsetsByTimestamp="),
        ({"startingOffsetsByTimestamp": '{"a": {"b": {"0": -1}}}'}, "option startingOffsetsByTimestamp="),
        ({"startingOffsetsByTimestamp": '{"a": {"0": 5}}'}, "option startingOffsetsByTimestamp="),
        ({"startingOffsetsByTimestamp": "{}", "startingTimestamp": "5"}, "give either startingOffsetsByTimestamp or"),
        ({"startingOffsetsByTimestamp": "{}", "startingOffsets": "latest"}, "startingOffsetsByTimestamp, not both"),
        ({"startingOffsetsByTimestampStrategy": "error"}, "there is none"),
        ({"startingTimestamp": "5", "startingOffsetsByTimestampStrategy": "first"}, "write error or latest"),
        ({"endingOffsetsByTimestamp": "{}", "endingOffsets": "latest"}, "give either endingOffsets or"),
        ({"requestTimeout": "soon"}, "option requestTimeout='soon': write a duration"),
        ({"requestTimeout": "0s"}, "option requestTimeout='0s': write a duration"),
        ({"tlsCaFile": "ca.pem"}, "option tlsCaFile: it means nothing without tls=true; nothing would be encrypted"),
        ({"startingTimestamp": "1700000000000000"}, "option startingTimestamp='1700000000000000': write milliseconds"),
        ({"endingTimestamp": "1969-12-31T23:00:00Z"}, "option endingTimestamp='1969-12-31T23:00:00Z': write"),
        ({"endingOffsetsByTimestamp": f'{{"a": {{"b": {{"0": {10**18}}}}}}}'}, "option endingOffsetsByTimestamp="),
        ({"startingOffsets": f'{{"a": {{"b": {{"0": {1 << 63}}}}}}}'}, "option startingOffsets="),
        ({"startingOffsets": '{"a": {"b": {"0": [1]}}}'}, "option startingOffsets="),
        ({"startingOffsets": '{"a": {"b": {"0": -2.0}}}'}, "option startingOffsets="),
        ({"startingOffsets": '{"a": {"b": {"0": 1, "0": 2}}}'}, "option startingOffsets="),
        ({"startingOffsets": '{"a": {"b": {"00": 1}}}'}, "option startingOffsets="),
    ],
)
def test_what_cannot_work_is_named(options: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        source_options({**NEEDED, **options}, streaming=False)

    assert said in str(refused.value)


def test_one_request_may_take_as_long_as_it_is_told_to() -> None:
    assert 3_000 == source_options(NEEDED, streaming=True).settings.request_timeout_ms
    assert 20_000 == source_options({**NEEDED, "requestTimeout": "20s"}, streaming=True).settings.request_timeout_ms
