"""What real brokers, name servers and Java clients wrote is read as they meant it, and written as they write it."""

from __future__ import annotations

import base64
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from typing import Any

import pytest

from framework.model.message import Message
from framework.model.queue import MessageQueue
from framework.wire import batch, frame, stored
from framework.wire import requests as families
from framework.wire.codes import Language, RequestCode, ResponseCode
from framework.wire.command import RemotingCommand
from framework.wire.fields import from_fields, to_fields
from framework.wire.properties import decode as decode_properties
from framework.wire.requests.offset import OffsetAnswer
from framework.wire.requests.pull import PullAnswer
from framework.wire.requests.send import SendAnswer, SendRequest, SendRequestV2
from tests.golden import captures
from tests.golden.captures import CaptureSet, Entry

PULL, SEND, SEND_V2, SEND_BATCH = 11, 10, 310, 320
ALL = {name: captures.load(name) for name in captures.names()}
ASKED_FOR = {
    RequestCode(code)
    for code in (105, 106, 34, 35, 38, 40, 14, 15, 29, 30, 31, 310, 320, 11, 36, 41, 42, 203, 208, 307)
}
NO_HEADER: dict[int, set[str]] = {106: set(), 40: {"consumerGroup"}}
"""Requests for which no header is made, and the fields that they have."""
UNKNOWN_FIELDS = {"lo"}
"""Of Java's clients, and nobody's business: a hint for static topics."""


def commands(name: str) -> Iterator[tuple[Entry, RemotingCommand]]:
    for entry in ALL[name].entries:
        yield entry, frame.decode(ALL[name].raw(entry)[4:])


def header_of(code: int) -> type[Any]:
    """The class that says it is this request's header; batches share the ordinary send's."""
    if code == SEND_BATCH:
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
        assert command == frame.decode(frame.encode(command)[4:])
        if command.code > 0x7FFF:
            continue  # Pop's codes do not fit the binary encoding.
        again = frame.decode(frame.encode(command, binary=True)[4:])
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
    return [frame.decode(raw[4:]).body for raw in capture.find(PULL, "answer", code=ResponseCode.SUCCESS)]


def pulled(capture: CaptureSet) -> list[Message]:
    messages = []
    for body in pulled_bodies(capture):
        topic = stored.decode_records(body)[0].topic
        messages += stored.decode(body, MessageQueue(topic, "broker-a", 0))
    return messages


WITH_MESSAGES = ["json", "binary", "classic", "ipv6", "long"]


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
        body = frame.decode(raw[4:]).body
        parts = batch.decode(body)

        assert body == batch.encode(parts)
        assert [b"batch-0", b"batch-1"] == [part.body for part in parts[:2]]


def test_both_kinds_of_sends_say_the_same() -> None:
    """The one with spelled out names is sent by old clients only, and says what the one with letters says."""
    old = [frame.decode(raw[4:]) for raw in ALL["classic"].find(SEND, "request")]
    new = [frame.decode(raw[4:]) for raw in ALL["json"].find(SEND_V2, "request")]

    header = from_fields(SendRequest, old[0].fields)
    letters = from_fields(SendRequestV2, new[0].fields)
    assert ("classic", "golden") == (header.topic, letters.topic)
    assert "red" == decode_properties(header.properties or "")["colour"]
    assert "red" == decode_properties(letters.properties or "")["colour"]
