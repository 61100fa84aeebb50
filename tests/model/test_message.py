"""Message: made by users with everything given, or pulled and read when somebody looks."""

from __future__ import annotations

from collections import Counter

import pytest

from framework.errors import BodyUndecodable
from framework.model.message import KEYS, TAGS, UNIQUE_KEY, Message
from framework.model.queue import MessageQueue

QUEUE = MessageQueue("%RETRY%billing", "broker-a", 3)


class Records:
    """A source that counts how often it is opened."""

    def __init__(self, texts: dict[str, str] | None = None, body: bytes | Exception = b"body") -> None:
        self.queue = QUEUE
        self.opened: Counter[str] = Counter()
        self._texts = texts or {}
        self._body = body

    def topic(self, at: int) -> str:
        return f"topic at {at}"

    def body(self, at: int) -> bytes:
        self.opened["body"] += 1
        if isinstance(self._body, Exception):
            raise self._body
        return self._body

    def properties(self, at: int) -> dict[str, str]:
        self.opened["properties"] += 1
        return self._texts

    unsurrounded = 0

    def lacks(self, name: str) -> bool:
        return name not in self._texts

    def reconsume_times(self, at: int) -> int:
        return 2

    def born_ms(self, at: int) -> int:
        return 1_700

    def stored_ms(self, at: int) -> int:
        return 1_800

    def flag(self, at: int) -> int:
        return 9

    def commit_log_offset(self, at: int) -> int:
        return 4_242

    def offset_message_id(self, at: int) -> str:
        return f"0A000009{at:08X}"


def pulled(records: Records, at: int = 64) -> Message:
    """As `wire/stored.py` makes them, without the constructor."""
    message = object.__new__(Message)
    message._source, message._at, message.queue_offset = records, at, 42
    message._body = message._properties = None
    return message


def test_a_pulled_message_reads_its_record() -> None:
    message = pulled(Records({TAGS: "paid", KEYS: "k1 k2", UNIQUE_KEY: "U1", "own": "x"}))

    assert ("topic at 64", b"body", "paid", ["k1", "k2"]) == (message.topic, message.body, message.tags, message.keys)
    assert ("U1", "0A00000900000040") == (message.message_id, message.offset_message_id)
    assert (QUEUE, 42, 3) == (message.queue, message.queue_offset, message.attempt)
    assert (1_700, 1_800, 9, 4_242) == (message.born_ms, message.stored_ms, message.flag, message.commit_log_offset)
    assert "x" == message.properties["own"]


def test_nothing_is_opened_before_it_is_read_and_nothing_twice() -> None:
    records = Records({KEYS: "k1"})
    message = pulled(records)
    assert message.attempt == 3
    assert {} == records.opened

    for _ in range(3):
        assert (b"body", ["k1"], None) == (message.body, message.keys, message.tags)
    assert {"body": 1, "properties": 1} == records.opened


def test_a_body_that_cannot_be_opened_is_tried_again_at_the_next_reading() -> None:
    """Memory or a codec may be there by then."""
    records = Records(body=BodyUndecodable("truncated at 3"))
    message = pulled(records)

    for _ in range(2):
        with pytest.raises(BodyUndecodable, match="truncated at 3"):
            message.body  # noqa: B018  # reading is the act
    assert {"body": 2} == records.opened


def test_without_a_unique_key_the_place_in_the_log_is_the_id() -> None:
    assert "0A00000900000040" == pulled(Records()).message_id


def test_a_written_message_is_what_was_given() -> None:
    message = Message(
        "orders", b"body", tags="paid", keys=["k1", "k2"], properties={"own": "x"}, queue=QUEUE, queue_offset=7,
        attempt=3, born_ms=1, stored_ms=2, message_id="U1", offset_message_id="O1",
    )  # fmt: skip

    assert ("orders", b"body", "paid", ["k1", "k2"]) == (message.topic, message.body, message.tags, message.keys)
    assert ("U1", "O1", QUEUE, 7) == (
        message.message_id,
        message.offset_message_id,
        message.queue,
        message.queue_offset,
    )
    assert (3, 1, 2, 0, 0) == (
        message.attempt, message.born_ms, message.stored_ms, message.flag, message.commit_log_offset,
    )  # fmt: skip
    assert {"own": "x", TAGS: "paid", KEYS: "k1 k2", UNIQUE_KEY: "U1"} == message.properties


def test_a_written_message_needs_a_topic_only() -> None:
    message = Message("orders")

    assert (b"", {}, None, [], 1) == (message.body, message.properties, message.tags, message.keys, message.attempt)
    assert MessageQueue("orders", "", 0) == message.queue
    assert "" == message.message_id


@pytest.mark.parametrize("body", ["标签", "标签".encode()])
def test_a_body_may_be_text_or_bytes(body: str | bytes) -> None:
    assert "标签".encode() == Message("orders", body).body


@pytest.mark.parametrize("keys", ["k1 k2", ["k1", "k2"], ("k1 k2",), iter(["k1", "k2"])])
def test_keys_may_be_one_text_or_several(keys: str | list[str]) -> None:
    assert ["k1", "k2"] == Message("orders", keys=keys).keys


def test_what_a_producer_gave_is_copied() -> None:
    """The caller may go on using its own dictionary."""
    texts = {"own": "x"}
    message = Message("orders", properties=texts, tags="paid")

    texts["own"] = "changed"
    assert "x" == message.properties["own"]
    assert {"own": "changed"} == texts


def test_its_repr_shows_place_and_attempt_and_no_content() -> None:
    """A body may hold what must not stand in a log."""
    assert "<Message %RETRY%billing@broker-a:3 offset=42 attempt=3>" == repr(pulled(Records()))


def test_one_property_opens_all_only_where_some_message_may_have_it() -> None:
    records = Records({"TAGS": "a"})
    message = pulled(records)

    assert message.get_property("traceparent") is None
    assert 0 == records.opened["properties"]
    assert ["a", "a", None] == [message.get_property(name) for name in ("TAGS", "TAGS", "traceparent")]
    assert 1 == records.opened["properties"]
    assert "v" == Message("orders", properties={"k": "v"}).get_property("k")
