"""Copies of messages: dead letters, and what is sent again as a message where a send-back fails."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from framework.errors import BodyUndecodable, BrokerUnreachable, Refused
from framework.model.death_reason import DeathReason
from framework.model.message import Message
from framework.model.queue import MessageQueue
from framework.wire import properties as texts
from framework.wire.codes import RequestCode
from framework.wire.command import RemotingCommand
from framework.wire.compression import Compression
from framework.wire.ids import offset_message_id
from framework.wire.stored import encode_record
from tests.client.script import A, B, ScriptedCluster, record_of, route_of
from tests.client.test_brokers import QUEUE
from tests.net.memory import virtually


def test_a_dead_letter_is_a_plain_send_past_its_maximum() -> None:
    """To the retry topic: the broker makes a dead letter of it, and creates that topic where there is none."""
    properties = {"TAGS": "t", "KEYS": "k", "UNIQ_KEY": "ID", "colour": "red", "DELAY": "3", "TRAN_MSG": "true",
                  "TIMER_DELAY_MS": "5", "POP_CK": "x"}  # fmt: skip
    message = Message(
        "orders", b"x" * 10, properties=properties, queue=QUEUE, queue_offset=7, attempt=4, born_ms=1_700_000_000_000
    )

    async def story() -> RemotingCommand:
        cluster = ScriptedCluster()
        await cluster.client.retry_copies.dead_letter(message, "billing")
        await cluster.client.close()
        (request,) = cluster.asked(A, RequestCode.SEND_MESSAGE_V2)
        return request

    request = virtually(story)
    fields = request.fields
    assert ("%RETRY%billing", "0", "4", "3") == (fields["b"], fields["e"], fields["j"], fields["l"])
    assert b"x" * 10 == request.body
    assert {
        "TAGS": "t", "KEYS": "k", "UNIQ_KEY": "ID", "colour": "red", "RETRY_TOPIC": "orders", "ORIGIN_MESSAGE_ID": "ID",
    } == texts.decode(fields["i"])  # fmt: skip


def test_a_long_dead_letter_is_compressed_again() -> None:
    message = Message("orders", b"x" * 10_000, queue=QUEUE, message_id="ID")

    async def story() -> RemotingCommand:
        cluster = ScriptedCluster()
        await cluster.client.retry_copies.dead_letter(message, "billing")
        await cluster.client.close()
        (request,) = cluster.asked(A, RequestCode.SEND_MESSAGE_V2)
        return request

    request = virtually(story)
    assert len(request.body) < 1_000
    assert Compression.ZLIB.sys_flag == int(request.fields["f"])


def test_what_cannot_be_read_is_buried_by_the_broker_s_own_copy() -> None:
    class Torn(Message):
        __slots__ = ()

        @property
        def body(self) -> bytes:
            raise BodyUndecodable("truncated")

    async def story() -> RemotingCommand:
        cluster = ScriptedCluster()
        await cluster.client.retry_copies.dead_letter(Torn("orders", b"", queue=QUEUE, message_id="ID"), "billing")
        await cluster.client.close()
        (request,) = cluster.asked(A, RequestCode.CONSUMER_SEND_MSG_BACK)
        return request

    assert "-1" == virtually(story).fields["delayLevel"]


WORDS = DeathReason("no such order", "ValueError", 1_700_000_000_123, "10.0.0.7@1")


def buried(message: Message, answer: Callable[[RemotingCommand], RemotingCommand]) -> list[RemotingCommand]:
    """What broker a is asked until it holds the dead letter."""

    async def story() -> list[RemotingCommand]:
        cluster = ScriptedCluster()
        cluster.scripts[A] = answer
        cluster.routes["%RETRY%billing"] = cluster.routes["orders"]
        await cluster.client.retry_copies.dead_letter(message, "billing", WORDS)
        await cluster.client.close()
        return cluster.network.requests(A)

    return virtually(story)


def test_a_dead_letter_says_why_and_a_sender_s_words_of_that_name_go() -> None:
    properties = {"UNIQ_KEY": "ID", "DEAD_LETTER_REASON": "forged", "DEAD_LETTER_ORIGIN": "made@up:0:0"}
    message = Message("orders", b"x", properties=properties, queue=QUEUE, queue_offset=7, attempt=4)
    (request,) = buried(message, lambda _: RemotingCommand(0))

    assert {
        "UNIQ_KEY": "ID", "RETRY_TOPIC": "orders", "ORIGIN_MESSAGE_ID": "ID",
        "DEAD_LETTER_REASON": "no such order", "DEAD_LETTER_ERROR": "ValueError",
        "DEAD_LETTER_TIME": "1700000000123", "DEAD_LETTER_MEMBER": "10.0.0.7@1", "DEAD_LETTER_ATTEMPTS": "4",
        "DEAD_LETTER_ORIGIN": f"{QUEUE.topic}@{QUEUE.broker}:{QUEUE.number}:7",
    } == texts.decode(request.fields["i"])  # fmt: skip


def test_where_the_send_is_refused_the_broker_copies_its_own_record() -> None:
    def answer(request: RemotingCommand) -> RemotingCommand:
        return RemotingCommand(16, remark="no") if request.code == RequestCode.SEND_MESSAGE_V2 else RemotingCommand(0)

    codes = [request.code for request in buried(failed(), answer)]
    assert [RequestCode.SEND_MESSAGE_V2, RequestCode.CONSUMER_SEND_MSG_BACK] == codes[:2]


RETRIED = MessageQueue("%RETRY%billing", "a", 0)
HERE = offset_message_id(bytes([127, 0, 0, 1, 0, 0, 0, 9]), 1_234)


@pytest.mark.parametrize(
    ("origin", "changes"),
    [
        ("orders@a:3:17", {}),
        ("%RETRY%billing@a:0:7", {"topic": "others"}),
        ("%RETRY%billing@a:0:7", {"properties": {"UNIQ_KEY": "another"}}),
        ("%RETRY%billing@a:0:7", None),
    ],
)
def test_the_origin_of_a_retry_is_asked_of_its_broker_and_checked(origin: str, changes: dict[str, Any] | None) -> None:
    """What the broker does not have any more, or what is another message, names no place."""
    message = failed(queue=RETRIED, properties={"UNIQ_KEY": "ID", "ORIGIN_MESSAGE_ID": HERE})

    def answer(request: RemotingCommand) -> RemotingCommand:
        if request.code != RequestCode.VIEW_MESSAGE_BY_ID:
            return RemotingCommand(0)
        assert "1234" == request.fields["offset"]
        if changes is None:
            return RemotingCommand(1, remark="can not find message")
        fields = {"topic": "orders", "body": b"x", "properties": {"UNIQ_KEY": "ID"}, **changes}
        return RemotingCommand(0, body=encode_record(replace(record_of(17, **fields), queue_id=3)))

    requests = buried(message, answer)
    (sent,) = [request for request in requests if request.code == RequestCode.SEND_MESSAGE_V2]
    assert origin == texts.decode(sent.fields["i"])["DEAD_LETTER_ORIGIN"]


def failed(**changes: Any) -> Message:
    """A message that failed on its fourth delivery: the third retry."""
    properties = {"TAGS": "t", "KEYS": "k", "UNIQ_KEY": "ID", "colour": "red", "DELAY": "5", "REAL_TOPIC": "x",
                  "TRAN_MSG": "true", "RETRY_TOPIC": "elsewhere", "ORIGIN_MESSAGE_ID": "made-up"}  # fmt: skip
    fields = {"properties": properties, "queue": QUEUE, "queue_offset": 7, "attempt": 4, "born_ms": 1_700_000_000_000}
    return Message("orders", b"x" * 10, **{**fields, **changes})


def _say(answer: RemotingCommand, request: RemotingCommand) -> RemotingCommand:
    return answer


def sent_again(
    message: Message,
    *,
    level: int = 0,
    spares_own: bool = False,
    perms: tuple[int, int] = (6, 6),
    answers: dict[str, RemotingCommand] | None = None,
) -> tuple[str, dict[str, list[RemotingCommand]]]:
    """To whom the copy went (or the error), and what each broker was sent."""

    async def story() -> tuple[str, dict[str, list[RemotingCommand]]]:
        cluster = ScriptedCluster()
        route = json.loads(route_of({"a": {0: A}, "b": {0: B}}))
        for data, perm in zip(route["queueDatas"], perms, strict=True):
            data["perm"] = perm
        cluster.routes["%RETRY%billing"] = json.dumps(route).encode()
        for address, answer in (answers or {}).items():
            cluster.scripts[address] = partial(_say, answer)
        try:
            taker = await cluster.client.retry_copies.send_again(
                message, "billing", delay_level=level, max_retries=16, spares_own=spares_own
            )
        except (Refused, BrokerUnreachable) as error:
            taker = str(error)
        await cluster.client.close()
        return taker, {each: cluster.asked(each, RequestCode.SEND_MESSAGE_V2) for each in (A, B)}

    return virtually(story)


REFUSAL = RemotingCommand(16, remark="sending message is forbidden")


@pytest.mark.parametrize(
    ("level", "delay", "attempt"), [(0, "6", 4), (6, "6", 4), (18, "18", 4), (0, "3", 1), (0, "18", 17)]
)
def test_a_copy_as_a_message_has_what_the_java_client_gives_it(level: int, delay: str, attempt: int) -> None:
    """Level 3 + attempts so far, the count that this makes, and where it truly comes from, whatever its sender says."""
    taker, asked = sent_again(failed(attempt=attempt), level=level)

    assert "b" == taker
    (request,) = asked[B]
    fields = request.fields
    assert ("%RETRY%billing", str(attempt), "16", "CLIENT_INNER_PRODUCER") == (
        fields["b"], fields["j"], fields["l"], fields["a"],
    )  # fmt: skip
    assert b"x" * 10 == request.body
    assert {
        "TAGS": "t", "KEYS": "k", "UNIQ_KEY": "ID", "colour": "red", "RETRY_TOPIC": "orders", "ORIGIN_MESSAGE_ID": "ID",
        "RECONSUME_TIME": str(attempt), "MAX_RECONSUME_TIMES": "16", "DELAY": delay,
    } == texts.decode(fields["i"])  # fmt: skip
    assert "1700000000000" == fields["g"]


def test_a_copy_of_a_copy_keeps_its_first_origin() -> None:
    (request,) = sent_again(failed(queue=MessageQueue("%RETRY%billing", "a", 0)))[1][B]
    assert "made-up" == texts.decode(request.fields["i"])["ORIGIN_MESSAGE_ID"], "a broker wrote it there"


def test_a_copy_for_the_dead_letters_leaves_the_broker_no_choice() -> None:
    (request,) = sent_again(failed(), level=-1)[1][B]
    assert ("4", "3") == (request.fields["j"], request.fields["l"])
    assert "DELAY" not in texts.decode(request.fields["i"])


@pytest.mark.parametrize(
    ("expected", "a", "b", "options"),
    [
        ("b", 0, 1, {}),
        ("a", 1, 0, {"perms": (6, 4)}),
        ("a", 1, 0, {"perms": (4, 4)}),  # it takes what no route says
        ("a", 1, 1, {"answers": {B: REFUSAL}}),
        ("b", 0, 1, {"perms": (4, 6), "spares_own": True}),
        ("no other broker takes %RETRY%billing", 0, 0, {"perms": (6, 4), "spares_own": True}),
        (
            "SEND_MESSAGE_V2 (310) refused by a: code 16, sending message is forbidden",
            1, 1, {"answers": {A: REFUSAL, B: REFUSAL}},
        ),
    ],
)  # fmt: skip
def test_another_broker_takes_the_copy_and_its_own_at_the_last(
    expected: str, a: int, b: int, options: dict[str, Any]
) -> None:
    taker, asked = sent_again(failed(), **options)
    assert (expected, a, b) == (taker, len(asked[A]), len(asked[B]))


@pytest.mark.parametrize("remark", ["FLUSH_DISK_TIMEOUT", "FLUSH_SLAVE_TIMEOUT", "SLAVE_NOT_AVAILABLE"])
def test_a_send_back_that_was_stored_all_the_same_is_none_that_failed(remark: str) -> None:
    """A stock broker refuses with 1 what it has stored: another copy would come back beside the first."""

    async def story() -> None:
        cluster = ScriptedCluster()
        cluster.scripts[A] = lambda _: RemotingCommand(1, remark=remark)
        await cluster.client.retry_copies.send_back(failed(), "billing", delay_level=0, max_retries=16)
        await cluster.client.close()

    virtually(story)
