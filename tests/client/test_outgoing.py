"""Outgoing: what may be sent, and how it is put into a request."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from framework.client.outgoing import (
    READY_BODY_BYTES_MAX,
    REQUEST_BYTES_MAX,
    Outgoing,
    prepare,
    prepare_batches,
    send_template,
)
from framework.client.producing.delays import BrokerTimer, Wish
from framework.errors import ConfigurationError
from framework.model.message import Message
from framework.model.queue import MessageQueue
from framework.model.reserved import SCHEDULE_TOPIC
from framework.model.sendable import BODY_BYTES_MAX
from framework.wire import frame, properties
from framework.wire.codes import RequestCode
from framework.wire.command import ONE_WAY_BIT
from framework.wire.compression import Compression, decompress
from framework.wire.fields import from_fields, to_fields
from framework.wire.requests.send import SendRequestV2
from tests.wire import batches

NOW = 1_700_000_000_000
QUEUE = MessageQueue("orders", "broker-a", 3)


def test_a_send_carries_key_tags_and_where_a_new_topic_comes_from() -> None:
    outgoing = prepare(Message("orders", "paid", tags="TagA", keys=["k1", "k2"], properties={"x": "1"}), "KEY", NOW)
    request = outgoing.request("producers", QUEUE)

    assert RequestCode.SEND_MESSAGE_V2 == request.code
    assert b"paid" == request.body
    assert {"UNIQ_KEY": "KEY", "WAIT": "true", "TAGS": "TagA", "KEYS": "k1 k2", "x": "1"} == properties.decode(
        request.fields["i"]
    )
    expected = {"a": "producers", "b": "orders", "c": "TBW102", "d": "4", "e": "3", "f": "0", "g": str(NOW), "h": "0"}
    assert expected == {name: request.fields[name] for name in "abcdefgh"}
    assert "broker-a" == request.fields["n"]


def test_a_key_that_the_message_brings_is_kept() -> None:
    assert ("MINE",) == prepare(Message("orders", "x", message_id="MINE"), "KEY", NOW).message_ids


@pytest.mark.parametrize("codec", list(Compression))
def test_a_large_body_is_compressed_and_says_how(codec: Compression) -> None:
    body = b"0123456789" * 1000
    outgoing = prepare(Message("orders", body), "KEY", NOW, codec=codec)

    assert len(outgoing.body) < len(body)
    assert body == decompress(outgoing.body, outgoing.sys_flag)


def test_a_body_that_compression_would_not_shorten_goes_as_it_is() -> None:
    body = bytes((7 * n * n + n // 3) % 256 for n in range(64)) * 1
    outgoing = prepare(Message("orders", body), "KEY", NOW, compress_above=1)

    assert (body, 0) == (outgoing.body, outgoing.sys_flag)


def test_a_delay_is_a_level() -> None:
    assert "3" == properties.decode(prepare(Message("orders", "x"), "K", NOW, delay_level=3).properties)["DELAY"]


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (Message("", "x"), "topic ''"),
        (Message("a b", "x"), "topic 'a b': use 1 to 127"),
        (Message("a\nb", "x"), "use 1 to 127"),
        (Message("t" * 128, "x"), "use 1 to 127"),
        (Message(SCHEDULE_TOPIC, "x"), "reserved by RocketMQ"),
        (Message("TBW102", "x"), "reserved by RocketMQ"),
        (Message("rmq_sys_wheel_timer", "x"), "reserved by RocketMQ"),
        (Message("orders", b""), "the body is empty"),
        (Message("orders", bytes(BODY_BYTES_MAX + 1)), "4194305 bytes exceeds the limit of 4194304; keep it elsewhere"),
        (Message("orders", "x", properties={"": "1"}), "must not be empty"),
        (Message("orders", "x", properties={"a": ""}), "must not be empty"),
        (Message("orders", "x", properties={"RETRY_TOPIC": "other"}), "property RETRY_TOPIC is RocketMQ's own"),
        (Message("orders", "x", properties={"a\x01b": "1"}), "message to orders: .* separate properties"),
        (
            Message("orders", "x", properties={"b": "1", "a": "\ud83d"}),
            "message to orders: property 'a' holds a lone surr",
        ),
        (Message("orders", "x", order_key="\ud83d"), "property '__SHARDINGKEY' holds a lone surrogate"),
        (Message("orders", "x", properties={"DELAY": "10s"}), "property DELAY='10s': write the number of a level"),
        (Message("orders", "x", properties={"DELAY": "-1"}), "write the number of a level"),
        (Message("orders", "x", properties={"a": "b" * 40_000}), "exceed the 32767"),
    ],
)
def test_what_cannot_be_sent_is_refused_with_its_reason(message: Message, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        prepare(message, "KEY", NOW)


@pytest.mark.parametrize("asked", [{"delay_level": 2}, {"wish": Wish(delay_ms=2_000)}])
def test_two_delays_are_one_too_many(asked: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="a delay and property DELAY; give one of them"):
        prepare(Message("orders", "x", properties={"DELAY": "3"}), "KEY", NOW, **asked)


@pytest.mark.parametrize("level", [-1, 19])
def test_a_level_off_the_ladder_is_refused(level: int) -> None:
    with pytest.raises(ConfigurationError, match="use 1 to 18"):
        prepare(Message("orders", "x"), "KEY", NOW, delay_level=level)


def test_a_dead_letter_topic_may_be_long() -> None:
    assert prepare(Message("%DLQ%" + "g" * 200, "x"), "KEY", NOW)


def test_a_batch_is_one_request_with_its_messages_inside() -> None:
    messages = [Message("orders", "one", tags="TagA"), Message("orders", "two", message_id="MINE")]
    (outgoing,) = prepare_batches(messages, ["K1", "K2"], NOW)
    request = outgoing.request("producers", QUEUE)

    assert RequestCode.SEND_BATCH_MESSAGE == request.code
    assert "true" == request.fields["m"]
    assert ("K1", "MINE") == outgoing.message_ids
    assert [(b"one", "K1", "TagA"), (b"two", "MINE", None)] == [
        (part.body, part.properties["UNIQ_KEY"], part.properties.get("TAGS")) for part in batches.decode(request.body)
    ]


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([], "at least one message"),
        ([Message("orders", "x"), Message("other", "x")], "a message is for 'other'"),
        ([Message("%RETRY%g", "x")], "single messages only"),
        ([Message("orders", "x", properties={"DELAY": "3"})], "a batch cannot have delays"),
        ([Message("orders", bytes(BODY_BYTES_MAX + 1))], "a body of 4194305 bytes exceeds the limit"),
    ],
)
def test_what_cannot_be_a_batch_is_refused(messages: list[Message], reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        prepare_batches(messages, ["KEY"] * len(messages), NOW)


def test_a_batch_is_cut_where_a_request_is_full() -> None:
    """Sizes count with properties: six of these fit into one request of 1,000 bytes, and the large one goes alone."""
    messages = [Message("orders", b"x" * 100) for _ in range(12)]
    messages.insert(6, Message("orders", b"y" * 990))

    parts = prepare_batches(messages, [f"K{n}" for n in range(13)], NOW, body_bytes_max=1_000)

    assert [6, 1, 6] == [len(part.message_ids) for part in parts]
    assert [f"K{n}" for n in range(13)] == [key for part in parts for key in part.message_ids]
    bodies = [[each.body for each in batches.decode(part.body)] if part.is_batch else [part.body] for part in parts]
    assert [message.body for message in messages] == [body for part in bodies for body in part]


def test_no_request_is_larger_than_a_frame_whatever_the_producer_s_limit_is() -> None:
    """Such a batch failed as a whole; a message says so of itself and of its topic, and leaves if it compresses."""
    body = Random(1).randbytes(1024 * 1024)
    parts = prepare_batches([Message("orders", body)] * 20, [f"K{n}" for n in range(20)], NOW, body_bytes_max=64 << 20)

    assert [15, 5] == [len(part.message_ids) for part in parts]
    assert all(len(part.body) <= REQUEST_BYTES_MAX for part in parts)
    assert prepare(Message("orders", bytes(17 << 20)), "K", NOW, body_bytes_max=64 << 20).sys_flag
    with pytest.raises(ValueError, match=r"message to orders: .* exceeds the 16711680 of one request"):
        prepare(Message("orders", body * 17), "K", NOW, body_bytes_max=64 << 20)
    with pytest.raises(ValueError, match="message to orders: a body of 17825792 bytes exceeds"):
        prepare_batches([Message("orders", body * 17)], ["K"], NOW, body_bytes_max=64 << 20)


def test_what_brokers_take_alone_they_take_in_a_batch() -> None:
    """Brokers count a batch's properties as body. The largest message goes as one, with all that it has."""
    message = Message("orders", b"y" * 1_000, tags="large", order_key="8841")

    before, alone, _ = prepare_batches(
        [Message("orders", b"x", order_key="8841"), message, message], ["K"] * 3, NOW, body_bytes_max=1_000
    )

    assert (True, False) == (before.is_batch, alone.is_batch)
    assert prepare(message, "K", NOW, body_bytes_max=1_000) == alone


def test_what_is_added_on_the_way_counts_too() -> None:
    """A delay, and the marks of requests and half messages: brokers would refuse the whole."""
    outgoing = prepare(Message("orders", b"x", properties={"long": "x" * 32_730}), "K", NOW, wish=Wish(delay_ms=1_000))

    with pytest.raises(ConfigurationError, match="bytes exceed the 32767"):
        outgoing.timed(BrokerTimer("a", is_on=True, most_ms=1_000), NOW)
    with pytest.raises(ConfigurationError, match="bytes exceed the 32767"):
        outgoing.marked({"PGROUP": "a-group-with-a-long-name"})


def test_a_request_says_what_its_header_class_would_write() -> None:
    """It is put together by hand, since a header's object would cost more than the rest of a small send."""
    queue = MessageQueue("orders", "broker-a", 3)
    one = prepare(Message("orders", b"x" * 5_000, tags="red"), "K1", 77)
    several = prepare_batches([Message("orders", b"1"), Message("orders", b"2")], ["K1", "K2"], 77)[0]

    for outgoing in (one, several):
        request = outgoing.request("desk", queue)
        assert request.fields == to_fields(from_fields(SendRequestV2, request.fields))
        assert list(request.fields) == list(to_fields(from_fields(SendRequestV2, request.fields))), "in its order"


@pytest.mark.parametrize(
    ("message", "queue"),
    [
        (Message("orders", b"x"), MessageQueue("orders", "broker-a", 3)),
        (Message("orders", b"x" * 5_000, tags="rot ü", keys='a"b', properties={"@": "{@}"}), QUEUE),
        (Message("orders", b"x", order_key="7"), MessageQueue("orders", '@"broker"@', 12)),
    ],
)
@pytest.mark.parametrize("is_one_way", [False, True])
def test_a_frame_from_the_template_is_the_request_s_own(
    message: Message, queue: MessageQueue, *, is_one_way: bool
) -> None:
    outgoing = prepare(message, "K1", 1_700_000_000_000)
    request = outgoing.request("desk", queue)
    request.number = 4_711
    request.flag = ONE_WAY_BIT if is_one_way else 0
    frame_of = outgoing.frame_of(send_template("desk", queue, is_one_way=is_one_way))

    assert frame_of is not None
    assert frame.encode(request) == frame_of(4_711)


@pytest.mark.parametrize(
    "outgoing",
    [
        prepare(Message("orders", b"x" * (READY_BODY_BYTES_MAX + 1)), "K1", 77, compress_above=BODY_BYTES_MAX),
        prepare_batches([Message("orders", b"1")], ["K1"], 77)[0],
    ],
)
def test_what_needs_a_second_look_has_no_ready_frame(outgoing: Outgoing) -> None:
    assert outgoing.frame_of(send_template("desk", QUEUE)) is None


def test_a_message_of_a_batch_is_written_alike_with_properties_and_without() -> None:
    plain, keyed = Message("orders", b"1"), Message("orders", b"2", keys="k", order_key="o")
    (made,) = prepare_batches([plain, keyed], ["K1", "K2"], 77, is_placed=True)
    texts = [{"UNIQ_KEY": "K1", "WAIT": "true"}, {"UNIQ_KEY": "K2", "WAIT": "true", **keyed.properties}]

    assert made.body == batches.encode(
        [batches.BatchedMessage(each.body, text) for each, text in zip((plain, keyed), texts, strict=True)]
    )
    assert made.message_ids == ("K1", "K2")
