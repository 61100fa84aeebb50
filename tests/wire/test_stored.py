"""Stored messages: golden bytes, both readers against each other, and records that lie."""

from __future__ import annotations

import sys
import zlib
from dataclasses import replace
from itertools import pairwise
from struct import pack, pack_into

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.errors import BodyUndecodable, ConfigurationError, RecordDamaged
from framework.model.message import Message
from framework.model.queue import MessageQueue
from framework.wire import compression, ids, stored
from framework.wire.stored import INNER_BATCH, Record, Records, decode, decode_records, encode_record, end_of
from tests.wire import batches

QUEUE = MessageQueue("TopicTest", "broker-a", 3)
RETRY = MessageQueue("%RETRY%g1", "broker-a", 0)
GOLDEN = bytes.fromhex(
    "000000a5 daa320a7 3610a686 00000003 00000000 000000000000002a 0000000000001092 00000000 0000018bcfe56800"
    "0a000001 00001388 0000018bcfe5687b 0a000009 00002a9f 00000000 0000000000000000 00000005 68656c6c6f"
    "09 546f70696354657374 003c 4b455953016b3102 554e49515f4b455901"
    "3041303030303031303030303030303030303030303030303030303030303031 02 5441475301 54616741 02"
)
HELLO = Record(
    topic="TopicTest", body=b"hello", queue_id=3, queue_offset=42, commit_log_offset=4242, born_ms=1_700_000_000_000,
    born_host=ids.pack_host("10.0.0.1", 5000), stored_ms=1_700_000_000_123, store_host=ids.pack_host("10.0.0.9", 10911),
    properties={"KEYS": "k1", "UNIQ_KEY": "0A000001000000000000000000000001", "TAGS": "TagA"},
)  # fmt: skip

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02"), min_size=1, max_size=8)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
HOSTS = st.binary(min_size=8, max_size=8) | st.binary(min_size=20, max_size=20)
TOPICS = st.sampled_from(["T", "%RETRY%" + "g" * 120, "标签"])
RECORDS = st.builds(
    Record, topic=TOPICS, body=st.binary(max_size=30), properties=st.dictionaries(TEXT, TEXT, max_size=4),
    queue_id=INT32, flag=INT32, queue_offset=st.integers(0, 2**62), commit_log_offset=INT64, born_ms=INT64,
    born_host=HOSTS, stored_ms=INT64, store_host=HOSTS, reconsume_times=INT32, prepared_transaction_offset=INT64,
)  # fmt: skip


def test_java_record_is_read_lazily() -> None:
    (message,) = decode(GOLDEN, QUEUE)

    assert (b"hello", "TopicTest", "TagA", ["k1"], 42) == (
        message.body, message.topic, message.tags, message.keys, message.queue_offset,
    )  # fmt: skip
    assert "0A000001000000000000000000000001" == message.message_id
    assert "0A00000900002A9F0000000000001092" == message.offset_message_id
    assert (1_700_000_000_000, 1_700_000_000_123, 1, 0, 4242) == (
        message.born_ms, message.stored_ms, message.attempt, message.flag, message.commit_log_offset,
    )  # fmt: skip
    assert QUEUE == message.queue


def test_java_record_is_read_plainly_and_written_byte_for_byte() -> None:
    assert [HELLO] == decode_records(GOLDEN)
    assert GOLDEN == encode_record(HELLO)


def with_bits(record: Record) -> Record:
    bits = (0x10 if len(record.born_host) == 20 else 0) | (0x20 if len(record.store_host) == 20 else 0)
    return replace(record, sys_flag=bits)


@given(st.lists(RECORDS, max_size=4))
def test_plain_reading_gives_back_what_was_written(records: list[Record]) -> None:
    assert list(map(with_bits, records)) == decode_records(b"".join(map(encode_record, records)))


@given(st.lists(RECORDS, max_size=4), st.integers(-5, 5))
def test_lazy_reading_agrees_with_what_was_written(records: list[Record], delta: int) -> None:
    data = b"".join(map(encode_record, records))
    messages = decode(data, QUEUE, offset_delta=delta)

    assert len(records) == len(messages)
    for record, message in zip(records, messages, strict=True):
        assert (record.body, record.topic, record.properties) == (message.body, message.topic, message.properties)
        assert (record.queue_offset + delta, record.flag) == (message.queue_offset, message.flag)
        assert (record.commit_log_offset, record.reconsume_times) == (message.commit_log_offset, message.attempt - 1)
        assert (record.born_ms, record.stored_ms) == (message.born_ms, message.stored_ms)
        assert ids.offset_message_id(record.store_host, record.commit_log_offset) == message.offset_message_id
        source = message._source
        assert isinstance(source, Records)
        assert (record.born_host, record.store_host) == (source.born_host(message._at), source.store_host(message._at))
        assert encode_record(record) == source.raw(message._at)
        assert record.properties.get("TAGS") == source.tag(message._at)


@pytest.mark.parametrize("topic", ["t" * 127, "t" * 128, "t" * 255])
def test_a_topic_too_long_for_v1_makes_a_v2_record(topic: str) -> None:
    data = encode_record(replace(HELLO, topic=topic))

    assert (0xDAA320AB if len(topic) > 127 else 0xDAA320A7) == int.from_bytes(data[4:8])
    assert topic == decode(data, QUEUE)[0].topic
    assert topic == decode_records(data)[0].topic


def test_a_topic_no_record_can_hold_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="32768 bytes does not fit a record"):
        encode_record(replace(HELLO, topic="t" * 32768))


def test_no_records_are_no_messages() -> None:
    assert [] == decode(b"", QUEUE)
    assert [] == decode_records(b"")


def test_messages_keep_alive_the_pull_and_nothing_else() -> None:
    body = bytes(bytearray(GOLDEN * 3))
    before = sys.getrefcount(body)

    messages = decode(body, QUEUE)
    assert before + 1 == sys.getrefcount(body)
    del messages

    assert before == sys.getrefcount(body)


# Topics of retried messages


@pytest.mark.parametrize(
    ("queue", "properties", "expected"),
    [
        (RETRY, {"RETRY_TOPIC": "orders"}, "orders"),
        (RETRY, {"RETRY_TOPIC": "../../etc"}, "%RETRY%g1"),
        (RETRY, {"RETRY_TOPIC": "x" * 256}, "%RETRY%g1"),
        (RETRY, {}, "%RETRY%g1"),
        (QUEUE, {"RETRY_TOPIC": "orders"}, "%RETRY%g1"),
    ],
)
def test_only_a_retried_message_shows_its_first_topic(
    queue: MessageQueue, properties: dict[str, str], expected: str
) -> None:
    """Anywhere else the property is a producer's claim, and chooses nothing."""
    record = replace(HELLO, topic="%RETRY%g1", properties=properties)

    assert expected == decode(encode_record(record), queue)[0].topic


def test_what_came_back_of_a_pop_shows_the_topic_that_its_retry_topic_is_for() -> None:
    """No property names it; one that does goes first."""
    records = [replace(HELLO, topic="%RETRY%g1_orders", properties=each) for each in ({}, {"RETRY_TOPIC": "bills"})]
    queue = MessageQueue("%RETRY%g1_orders", "broker-a", 0)

    assert ["orders", "bills"] == [decode(encode_record(each), queue, origin="orders")[0].topic for each in records]


# Tags


@pytest.mark.parametrize(
    ("text", "tag"),
    [
        (b"TAGS\x01a\x02", "a"),
        (b"TAGS\x01a", "a"),
        (b"k\x01v\x02TAGS\x01a\x02x\x01y\x02", "a"),
        (b"TAGS\x01a\x02TAGS\x01b\x02", "b"),
        (b"TAGS\x01a\x02TAGS\x01\x02", "a"),
        (b"NOTTAGS\x01a\x02", None),
        (b"k\x01TAGS\x02", None),
        (b"", None),
        (b"TAGS\x01\x02", None),
        (b"TAGS\x01\xff\x02", "\ufffd"),
        (b"TAGS\x01a\x01b\x02", "a\x01b"),
    ],
)
def test_the_tag_alone_is_the_tag_among_all(text: bytes, tag: str | None) -> None:
    data = with_properties(text)
    source = Records(data, QUEUE)

    assert tag == source.tag(0)
    assert tag == source.properties(0).get("TAGS")


NAMES = ["a", "b", "TAGS", "\ufffd", "\ud800", ""]
PIECES = [b"a", b"b", b"TAGS", b"\x01", b"\x01", b"\x02", b"\x02", b"x", b"\xff", "\ufffd".encode()]


@given(st.lists(st.sampled_from(PIECES), max_size=12).map(b"".join), st.sampled_from(NAMES))
def test_one_property_is_the_one_among_all(text: bytes, name: str) -> None:
    (message,), (other,) = decode(with_properties(text), QUEUE), decode(with_properties(text), QUEUE)

    assert other.properties.get(name) == message.get_property(name) == other.get_property(name)


def test_a_property_that_no_message_of_a_pull_has_is_found_missing_without_reading_any() -> None:
    messages = decode(GOLDEN * 3, QUEUE)

    assert [None] * 3 == [each.get_property("traceparent") for each in messages]
    assert [None] * 3 == [each._properties for each in messages]
    assert ["k1"] * 3 == [each.get_property("KEYS") for each in messages]


def with_properties(text: bytes) -> bytes:
    data = encode_record(replace(HELLO, properties={}))
    return pack(">i", len(data) + len(text)) + data[4:-2] + pack(">h", len(text)) + text


# Records that lie


def patched(at: int, layout: str, value: int, record: Record = HELLO) -> bytes:
    data = bytearray(encode_record(record))
    pack_into(layout, data, at, value)
    return bytes(data)


V6 = replace(HELLO, born_host=bytes(20), store_host=bytes(20))
TOPIC_AT = 88 + 5
PROPERTIES_AT = TOPIC_AT + 1 + 9
AT_ONCE = [
    (patched(0, ">i", 0), "says 0 bytes, of 165"),
    (patched(0, ">i", -1), "says -1 bytes, of 165"),
    (patched(0, ">i", 166), "says 166 bytes, of 165"),
    (patched(0, ">i", 0x7FFFFFFF), "says 2147483647 bytes"),
    (patched(0, ">i", 90), "says 90 bytes"),
    (patched(4, ">i", -875286124), "magic number 0xCBD43194"),
    (patched(4, ">i", 0), "magic number 0x00000000"),
    (patched(84, ">i", -1), "body of -1 bytes in a record of 165"),
    (patched(84, ">i", 75), "body of 75 bytes in a record of 165"),
    (patched(84, ">i", 0x7FFFFFFF), "body of 2147483647 bytes"),
    (patched(36, ">i", 0x30, replace(HELLO, properties={})), "105 bytes are too few for its IPv6 hosts"),
    (patched(0, ">i", 100, V6), "100 bytes are too few for its IPv6 hosts"),
    (patched(84 + 24, ">i", -1, V6), "body of -1 bytes"),
    (patched(84 + 24, ">i", 5000, V6), "body of 5000 bytes"),
    (patched(8, ">i", 0), "body's checksum is 907060870, not 0 as stored"),
    (patched(88, ">b", 0), "body's checksum is"),
    (patched(TOPIC_AT, ">B", 255), "topic of 255 bytes, and 71 are left"),
    (patched(TOPIC_AT, ">B", 70), "topic of 70 bytes, and 71 are left"),
    (patched(TOPIC_AT + 1, ">B", 0xFF), r"topic b'\\xffopicTest' is not UTF-8"),
    (patched(PROPERTIES_AT, ">h", 61), "properties of 61 bytes, and 60 are left"),
    (patched(PROPERTIES_AT, ">h", 59), "1 bytes follow its properties"),
    (patched(PROPERTIES_AT, ">h", -1), "properties of 65535 bytes"),
    (patched(PROPERTIES_AT, ">h", 32767), "properties of 32767 bytes"),
    (patched(88 + 5, ">H", 32767, replace(HELLO, topic="t" * 130)), "topic of 32767 bytes"),
]


@pytest.mark.parametrize(("data", "reason"), AT_ONCE)
def test_a_record_that_lies_about_its_size_fails_the_whole_pull(data: bytes, reason: str) -> None:
    with pytest.raises(RecordDamaged, match=rf"TopicTest@broker-a:3: record at byte 165, queue offset 42: {reason}"):
        decode(GOLDEN + data, QUEUE)
    with pytest.raises(RecordDamaged, match="record at byte 165"):
        decode_records(GOLDEN + data)


@pytest.mark.parametrize(
    ("record", "begin", "reason"),
    [
        (HELLO, 43, "offset 42, and the next one is 43 at least"),
        (replace(HELLO, topic="TopicTesu"), 42, "its topic is b'TopicTesu'"),
        (replace(HELLO, topic="TopicTes"), 42, "its topic is b'TopicTes'"),
        (replace(HELLO, queue_offset=41), 42, "offset 41, and the next one is 42 at least"),
        (replace(V6, queue_offset=41), 42, "offset 41, and the next one is 42 at least"),
    ],
)
def test_a_record_that_is_no_answer_to_the_pull_fails_it(record: Record, begin: int, reason: str) -> None:
    with pytest.raises(RecordDamaged, match=f"TopicTest@broker-a:3: record at byte 0, queue offset .*{reason}"):
        decode(encode_record(record), QUEUE, begin=begin)


def test_offsets_must_ascend_in_a_pull() -> None:
    data = b"".join(encode_record(replace(HELLO, queue_offset=offset)) for offset in (5, 9, 7))

    with pytest.raises(RecordDamaged, match="queue offset 7: offset 7, and the next one is 10 at least"):
        decode(data, QUEUE, begin=5)


def test_a_pull_from_the_middle_of_an_inner_batch_begins_there() -> None:
    messages = decode(inner(batches.encode(PARTS)), QUEUE, begin=43)

    assert [(43, b"two")] == [(message.queue_offset, message.body) for message in messages]


def test_what_follows_the_records_that_were_asked_for_is_not_looked_at() -> None:
    data = b"".join(encode_record(replace(HELLO, queue_offset=offset)) for offset in (5, 6, 7))

    messages = decode(data + b"nothing like a record", QUEUE, begin=5, most=2)

    assert [5, 6] == [message.queue_offset for message in messages]
    assert 2 * len(data) // 3 == end_of(messages)


@pytest.mark.parametrize("count", range(1, len(GOLDEN)))
def test_a_cut_record_is_damaged_wherever_it_is_cut(count: int) -> None:
    with pytest.raises(RecordDamaged, match=r"TopicTest@broker-a:3: record at byte 165"):
        decode(GOLDEN + GOLDEN[:count], QUEUE)
    with pytest.raises(RecordDamaged):
        decode_records(GOLDEN + GOLDEN[:count])


@pytest.mark.parametrize("count", range(88 + len(HELLO.body), len(GOLDEN)))
def test_a_record_that_says_it_ends_early_is_damaged_wherever_it_ends(count: int) -> None:
    """Also as the last one, where there is nothing left to compare its topic with."""
    early = pack(">i", count) + GOLDEN[4:count]

    with pytest.raises(RecordDamaged, match=r"TopicTest@broker-a:3: record at byte 165, queue offset 42: "):
        decode(GOLDEN + early, QUEUE)
    with pytest.raises(RecordDamaged, match=r"TopicTest@broker-a:3: record at byte 660, queue offset 42: "):
        decode(GOLDEN * 4 + early, QUEUE)


def told_of(data: bytes, begin: int | None) -> object:
    try:
        messages = decode(data, QUEUE, begin=begin)
        return [(message.queue_offset, message.body, message.properties) for message in messages]
    except (RecordDamaged, BodyUndecodable) as error:
        return str(error)


def test_records_of_one_size_are_checked_as_any_others_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """They have a shorter way. Whatever is wrong with one of them is found there, too, and named in the same words."""
    alike = b"".join(encode_record(replace(HELLO, queue_offset=offset)) for offset in range(42, 47))
    cases = (
        [alike + lie for lie, _ in AT_ONCE]
        + [alike[:-165] * 2, alike + alike[:165], GOLDEN * 5]
        + [
            alike[:at] + bytes((alike[at] ^ change,)) + alike[at + 1 :]
            for at in (*range(165), *range(330, 495), *range(660, 825))
            for change in (0x01, 0x10, 0x80, 0xFF)
        ]
    )
    shorter, taken = stored._alike, set()

    def noted(records: Records, offset_delta: int, least: int, messages: list[Message]) -> int:
        taken.add(end := shorter(records, offset_delta, least, messages))
        return end

    monkeypatch.setattr(stored, "_alike", noted)
    short = [told_of(case, begin) for case in cases for begin in (None, 42)]
    monkeypatch.setattr(stored, "_may_be_alike", lambda *_: False)
    long = [told_of(case, begin) for case in cases for begin in (None, 42)]

    assert long == short
    assert {0, 330, 660, 825} <= taken


# Bodies


@pytest.mark.parametrize("codec", list(compression.Compression))
def test_a_compressed_body_is_opened_when_read(codec: compression.Compression) -> None:
    stored = compression.compress(b"hello " * 1000, codec)
    (message,) = decode(encode_record(replace(HELLO, body=stored, sys_flag=codec.sys_flag)), QUEUE)

    assert b"hello " * 1000 == message.body
    assert message.body is message.body


def test_an_undecodable_body_is_the_producers_fault_and_hurts_nobody_else() -> None:
    bad = encode_record(replace(HELLO, body=b"not zlib", sys_flag=0x301))

    first, second = decode(bad + GOLDEN, QUEUE)

    with pytest.raises(BodyUndecodable, match="not zlib"):
        first.body  # noqa: B018
    assert "TagA" == first.tags
    assert b"hello" == second.body


# Inner batches

PARTS = [
    batches.BatchedMessage(b"one", {"TAGS": "TagA", "UNIQ_KEY": "u1"}, 7),
    batches.BatchedMessage(b"two", {"UNIQ_KEY": "u2"}, 8),
]


def inner(body: bytes, sys_flag: int = 0, record: Record = HELLO) -> bytes:
    return encode_record(replace(record, body=body, sys_flag=INNER_BATCH | sys_flag))


@pytest.mark.parametrize("codec", [None, compression.Compression.ZLIB])
@pytest.mark.parametrize("record", [HELLO, V6])
def test_an_inner_batch_is_taken_apart(codec: compression.Compression | None, record: Record) -> None:
    body = batches.encode(PARTS)
    data = inner(compression.compress(body, codec), codec.sys_flag, record) if codec else inner(body, record=record)

    one, two, after = decode(data + GOLDEN, QUEUE, offset_delta=100)

    assert [(142, b"one", 7, "u1", "TagA"), (143, b"two", 8, "u2", None)] == [
        (m.queue_offset, m.body, m.flag, m.message_id, m.tags) for m in (one, two)
    ]
    assert 142 == after.queue_offset
    for message in (one, two):
        assert shared(decode(encode_record(record), QUEUE)[0]) == shared(message)
        assert data == message._source.raw(message._at)  # type: ignore[attr-defined]


def shared(message: Message) -> tuple[object, ...]:
    return (
        message.topic, message.attempt, message.born_ms, message.stored_ms, message.commit_log_offset,
        message.offset_message_id, message.queue,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("body", "sys_flag", "reason"),
    [
        (b"xyz", 0, "inner batch cannot be taken apart: batch: 3 bytes after message 0"),
        (b"", 0, "inner batch holds no message"),
        (b"xyz", 1, "is not zlib"),
        (zlib.compress(b"xyz"), 1, "inner batch cannot be taken apart"),
    ],
)
def test_an_inner_batch_that_cannot_be_taken_apart_stays_one_message(body: bytes, sys_flag: int, reason: str) -> None:
    """A producer made it so; refusing the whole pull would let him stop the queue."""
    message, after = decode(inner(body, sys_flag) + GOLDEN, QUEUE)

    assert (42, 42) == (message.queue_offset, after.queue_offset)
    with pytest.raises(BodyUndecodable, match=reason):
        message.body  # noqa: B018


def test_an_inner_batch_with_a_wrong_checksum_fails_the_pull() -> None:
    data = bytearray(inner(batches.encode(PARTS)))
    data[100] ^= 1

    with pytest.raises(RecordDamaged, match="checksum"):
        decode(bytes(data), QUEUE)


@pytest.mark.parametrize("bit", [0x40, 0x80])
def test_one_bit_alone_makes_no_inner_batch(bit: int) -> None:
    (message,) = decode(encode_record(replace(HELLO, body=b"xyz", sys_flag=bit)), QUEUE)

    assert b"xyz" == message.body


def test_reprs_name_the_queue_and_the_size() -> None:
    first, *_ = decode(inner(batches.encode(PARTS)), QUEUE)

    assert "<Records TopicTest@broker-a:3 165B>" == repr(decode(GOLDEN, QUEUE)[0]._source)
    assert repr(first._source).startswith("<InnerRecords TopicTest@broker-a:3 2 messages of <Records")


def test_offsets_follow_the_records_and_not_their_order() -> None:
    data = b"".join(encode_record(replace(HELLO, queue_offset=offset)) for offset in (5, 7, 6))

    assert [(5, 7), (7, 6)] == list(pairwise(m.queue_offset for m in decode(data, QUEUE)))
