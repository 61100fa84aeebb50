"""What real brokers, name servers and Java clients wrote is read as they meant it, and written as they write it."""

from __future__ import annotations

import asyncio
import base64
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from framework.client.dialogue.replies import Replies
from framework.client.outgoing import PREPARED_BIT
from framework.client.producing import recalls
from framework.client.routes import RouteTable
from framework.model.message import Message
from framework.model.queue import MessageQueue
from framework.net.pool import Pool
from framework.net.real_world import real_world
from framework.ports import Clock
from framework.wire import frame, stored
from framework.wire import requests as families
from framework.wire.codes import Language, RequestCode, ResponseCode
from framework.wire.command import RemotingCommand
from framework.wire.fields import from_fields, to_fields
from framework.wire.properties import decode as decode_properties
from framework.wire.requests.offset import OffsetAnswer
from framework.wire.requests.pull import PullAnswer
from framework.wire.requests.send import PushReplyRequest, SendAnswer, SendRequest, SendRequestV2
from framework.wire.requests.transaction import COMMIT, ROLLBACK, CheckTransactionRequest, EndTransactionRequest
from tests.golden import captures
from tests.golden.captures import CaptureSet, Entry
from tests.wire import batches
from tests.wire.frames import decode_frame

PULL, SEND, SEND_V2, SEND_BATCH, SEND_REPLY, PUSH_REPLY = 11, 10, 310, 320, 325, 326
ALL = {name: captures.load(name) for name in captures.names()}
ASKED_FOR = {
    RequestCode(code)
    for code in (105, 106, 34, 35, 38, 40, 14, 15, 29, 30, 31, 310, 320, 11, 36, 41, 42, 203, 208, 307)
}
NO_HEADER: dict[int, set[str]] = {106: set(), 200: set(), 400: set(), 401: set(), 40: {"consumerGroup"}}
"""Requests for which no header is made, and the fields that they have."""
UNKNOWN_FIELDS = {"lo", "suspend"}
"""Of Java's clients, and nobody's business: hints for static and for lite topics."""


def commands(name: str) -> Iterator[tuple[Entry, RemotingCommand]]:
    for entry in ALL[name].entries:
        yield entry, decode_frame(ALL[name].raw(entry)[4:])


def header_of(code: int) -> type[Any]:
    """The class that says it is this request's header; batches and replies share the ordinary send's."""
    if code in {SEND_BATCH, SEND_REPLY}:
        return SendRequestV2
    for family in pkgutil.iter_modules(families.__path__):
        module = importlib.import_module(f"{families.__name__}.{family.name}")
        for _, kind in inspect.getmembers(module, inspect.isclass):
            if code == vars(kind).get("CODE"):
                return kind
    raise AssertionError(f"no header is made for request {code}")


@pytest.mark.parametrize("encoding", ["json", "binary"])
def test_both_encodings_were_captured_for_every_request_that_matters(encoding: str) -> None:
    entries = [entry for entry in ALL[encoding].entries if entry.binary == (encoding == "binary")]

    assert {entry.request for entry in entries} >= ASKED_FOR


@pytest.mark.parametrize("name", ALL)
def test_every_frame_says_what_it_is(name: str) -> None:
    for entry, command in commands(name):
        assert entry.code == command.code
        assert (entry.kind == "answer", entry.kind == "one-way") == (command.is_answer, command.is_one_way)
        assert command.language in {Language.JAVA, Language.PYTHON}  # Python where we wrote a request by hand.


@pytest.mark.parametrize("name", ALL)
def test_every_frame_survives_being_written_again(name: str) -> None:
    for _, command in commands(name):
        assert command == decode_frame(frame.encode(command)[4:])
        if command.code > 0x7FFF:
            continue  # Pop's codes do not fit the binary encoding.
        again = decode_frame(frame.encode(command, binary=True)[4:])
        # Nor does it know an empty text: both Java and we read absence.
        again.remark = again.remark or command.remark
        again.fields |= {field: "" for field, value in command.fields.items() if not value}
        assert command == again


EMPTY_ATTRIBUTES = b"\x00\nattributes\x00\x00\x00\x00"


def test_binary_frames_are_written_as_java_writes_them() -> None:
    """Byte for byte, but for pairs without a value: Java writes some and reads them as absent, we leave them out."""
    for entry, command in commands("binary"):
        raw = ALL["binary"].raw(entry)
        assert raw == frame.encode(command, binary=True) or EMPTY_ATTRIBUTES in raw


@pytest.mark.parametrize("name", ALL)
def test_every_requests_fields_are_known(name: str) -> None:
    for entry, command in commands(name):
        if entry.kind != "answer" and entry.request in NO_HEADER:
            assert set(command.fields) <= NO_HEADER[entry.request]
        elif entry.kind != "answer":
            known = to_fields(from_fields(header_of(entry.request), command.fields))
            given = {field: value for field, value in command.fields.items() if value and field not in UNKNOWN_FIELDS}
            assert given == {field: value for field, value in known.items() if field in given}


ANSWERS = {
    PULL: PullAnswer,
    SEND: SendAnswer,
    SEND_V2: SendAnswer,
    SEND_BATCH: SendAnswer,
    14: OffsetAnswer,
    29: OffsetAnswer,
}


@pytest.mark.parametrize("name", ALL)
def test_every_answers_fields_are_known(name: str) -> None:
    for entry, command in commands(name):
        if entry.kind == "answer" and entry.request in ANSWERS and command.fields:
            assert command.fields == to_fields(from_fields(ANSWERS[entry.request], command.fields))


def pulled_bodies(capture: CaptureSet) -> list[bytes]:
    return [decode_frame(raw[4:]).body for raw in capture.find(PULL, "answer", code=ResponseCode.SUCCESS)]


def pulled(capture: CaptureSet) -> list[Message]:
    messages = []
    for body in pulled_bodies(capture):
        topic = stored.decode_records(body)[0].topic
        messages += stored.decode(body, MessageQueue(topic, "broker-a", 0))
    return messages


WITH_MESSAGES = ["json", "binary", "classic", "ipv6", "long", "dialogue"]


@pytest.mark.parametrize("name", WITH_MESSAGES)
def test_stored_records_are_written_as_the_broker_wrote_them(name: str) -> None:
    bodies = pulled_bodies(ALL[name])
    assert bodies

    for body in bodies:
        assert body == b"".join(stored.encode_record(record) for record in stored.decode_records(body))


@pytest.mark.parametrize("name", WITH_MESSAGES)
def test_every_message_is_read_as_its_producer_sent_it(name: str) -> None:
    """Plain and batch, in every compression, in other alphabets, delayed, born and stored at IPv6, retried."""
    by_id: dict[str, list[Message]] = {}
    for message in pulled(ALL[name]):
        by_id.setdefault(message.message_id, []).append(message)

    for sent in ALL[name].sent:
        message = by_id[sent["message_id"]][0]
        assert base64.b64decode(sent["body"]) == message.body
        assert sent.get("tags") == message.tags
        assert sent.get("keys", "").split() == message.keys
        assert sent["properties"].items() <= message.properties.items()
        if "level" not in sent and name != "long":  # Those stand elsewhere by now.
            assert (sent["offset"], sent["offset_message_id"]) == (message.queue_offset, message.offset_message_id)


def test_ipv6_hosts_make_long_message_ids() -> None:
    assert {56} == {len(message.offset_message_id) for message in pulled(ALL["ipv6"])}


@pytest.mark.parametrize("name", ["json", "binary"])
def test_a_retried_message_keeps_its_id_and_shows_its_own_topic(name: str) -> None:
    (sent,) = [each for each in ALL[name].sent if each.get("keys") == "again"]
    attempts = {message.attempt: message for message in pulled(ALL[name]) if message.message_id == sent["message_id"]}

    assert {1, 2} == set(attempts)
    assert {"golden-retried"} == {message.topic for message in attempts.values()}
    assert attempts[1].offset_message_id != attempts[2].offset_message_id


def test_a_topic_of_200_characters_makes_a_record_of_the_second_version() -> None:
    bodies = [body for body in pulled_bodies(ALL["long"]) if stored.MAGIC_V2 == int.from_bytes(body[4:8], signed=True)]
    (record,) = stored.decode_records(bodies[0])

    assert 200 == len(record.topic)
    assert record.topic.startswith("%RETRY%")


@pytest.mark.parametrize("name", ["json", "binary", "classic"])
def test_batches_are_written_as_java_writes_them(name: str) -> None:
    for raw in ALL[name].find(SEND_BATCH, "request"):
        body = decode_frame(raw[4:]).body
        parts = batches.decode(body)

        assert body == batches.encode(parts)
        assert [b"batch-0", b"batch-1"] == [part.body for part in parts[:2]]


def test_both_kinds_of_sends_say_the_same() -> None:
    """The one with spelled out names is sent by old clients only, and says what the one with letters says."""
    old = [decode_frame(raw[4:]) for raw in ALL["classic"].find(SEND, "request")]
    new = [decode_frame(raw[4:]) for raw in ALL["json"].find(SEND_V2, "request")]

    header = from_fields(SendRequest, old[0].fields)
    letters = from_fields(SendRequestV2, new[0].fields)
    assert ("classic", "golden") == (header.topic, letters.topic)
    assert "red" == decode_properties(header.properties or "")["colour"]
    assert "red" == decode_properties(letters.properties or "")["colour"]


DIALOGUE = {37, 39, 324, 325, 326, 370}
"""The end of a transaction and the question for it; a reply to a broker, either way, and on to who asked; a recall."""


def test_what_takes_two_was_captured_with_what_was_answered() -> None:
    entries = ALL["dialogue"].entries

    assert {entry.request for entry in entries} & DIALOGUE == DIALOGUE - {324}, "Java's clients reply by 325"
    assert {entry.code for entry in entries if entry.kind == "answer" and entry.request in DIALOGUE} == {0}


def test_half_messages_and_their_ends_are_written_as_java_writes_them() -> None:
    capture = ALL["dialogue"]
    halves = [from_fields(SendRequestV2, decode_frame(raw[4:]).fields) for raw in capture.find(SEND_V2, "request")]
    marked = [each for each in halves if "TRAN_MSG" in decode_properties(each.properties or "")]
    ends = [decode_frame(raw[4:]) for raw in capture.find(37, "one-way")]

    assert [PREPARED_BIT] * 2 == [each.sys_flag & PREPARED_BIT for each in marked]
    assert all(decode_properties(each.properties or "")["PGROUP"] == "golden-desk" for each in marked)
    assert [COMMIT, ROLLBACK] == [from_fields(EndTransactionRequest, end.fields).commit_or_rollback for end in ends]
    for end in ends:
        assert end.fields == to_fields(from_fields(EndTransactionRequest, end.fields))


def test_a_broker_s_question_holds_the_half_message_as_it_was_meant() -> None:
    asked = decode_frame(next(iter(ALL["dialogue"].find(39, "one-way")))[4:])
    (record,) = stored.decode_records(asked.body)

    assert record.body in {b"COMMIT", b"UNKNOWN"}, "a stock broker asks as well about one that has just ended"
    assert "dialogue" == record.topic
    assert asked.fields == to_fields(from_fields(CheckTransactionRequest, asked.fields))


def test_a_recall_handle_of_a_real_broker_is_read() -> None:
    (asked,) = [decode_frame(raw[4:]) for raw in ALL["dialogue"].find(370, "request")]
    place = recalls.read(asked.fields["recallHandle"])

    assert ("dialogue", "broker-a") == (place.topic, place.broker)
    assert [place.message_id] == [decode_frame(raw[4:]).fields["msgId"] for raw in ALL["dialogue"].find(370, "answer")]


def asked_by_java() -> Message:
    """The request for a reply as a consumer pulled it."""
    (message,) = [message for message in pulled(ALL["dialogue"]) if message.topic == "dialogue-asked"]
    return message


class OneBroker:
    """Takes one request; what it was, byte for byte."""

    def __init__(self) -> None:
        self.raw = b""

    async def request(self, address: str, command: RemotingCommand, *, timeout_ms: int) -> RemotingCommand:
        self.raw = frame.encode(command)
        return RemotingCommand(ResponseCode.SUCCESS)

    async def route(self, topic: str) -> None:
        return None

    def address_of(self, broker: str) -> str:
        return broker


def test_our_reply_is_written_as_java_s_is() -> None:
    """Field for field; only who replies, when, and the reply's own id are another's."""
    world, broker = real_world(), OneBroker()
    clock = cast("Clock", SimpleNamespace(now_ms=lambda: asked_by_java().born_ms + 5))
    replies = Replies(cast("Pool", broker), cast("RouteTable", broker), world.chance, clock, world.identity)
    assert asyncio.run(replies.send(asked_by_java(), b"re: tea?"))

    (theirs,) = [decode_frame(raw[4:]) for raw in ALL["dialogue"].find(SEND_REPLY, "request")]
    ours = decode_frame(broker.raw[4:])
    assert (SEND_REPLY, theirs.body) == (ours.code, ours.body)
    marks, our_marks = (decode_properties(each.fields["i"]) for each in (theirs, ours))
    assert marks.keys() == our_marks.keys()
    assert {**marks, "UNIQ_KEY": "?"} == {**our_marks, "UNIQ_KEY": "?"}
    own = {"a", "g", "i"}
    assert theirs.fields.keys() == ours.fields.keys()
    assert {name: text for name, text in theirs.fields.items() if name not in own} == {
        name: text for name, text in ours.fields.items() if name not in own
    }


def test_a_reply_that_a_broker_hands_on_is_read_with_what_it_answers() -> None:
    (pushed,) = [decode_frame(raw[4:]) for raw in ALL["dialogue"].find(PUSH_REPLY, "request")]
    header = from_fields(PushReplyRequest, pushed.fields)

    assert pushed.fields == to_fields(header)
    assert ("DefaultCluster_REPLY_TOPIC", b"re: tea?") == (header.topic, pushed.body)
    marks = decode_properties(header.properties or "")
    assert asked_by_java().properties["CORRELATION_ID"] == marks["CORRELATION_ID"]
