"""Ways to send beside the plain one: bodies that are no bytes, one-way, large batches, times, and recall."""

from __future__ import annotations

import asyncio
import base64
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from framework.errors import BrokerUnreachable, ConfigurationError, PartlySent, Refused
from framework.model.message import Message
from framework.model.queue import MessageQueue
from framework.wire import batch, properties
from framework.wire.codes import RequestCode
from framework.wire.command import ONE_WAY_BIT, RemotingCommand
from tests.client.script import NS, A, B
from tests.client.test_producer import Sending, refuse, stored
from tests.net.memory import virtually

ON_A = MessageQueue("orders", "a", 0)
WITH_TIMER = b"timerWheelEnable=true\ntimerMaxDelaySec=259200\nmessageDelayLevel=1s 5s 10s 30s 1m 2m\n"
WITHOUT_TIMER = b"messageDelayLevel=1s 5s 10s 30s 1m 2m\n"


class Paid(BaseModel):
    number: int


@dataclass
class Step:
    article: str


class Upper:
    """A codec: text in capitals, and nothing else."""

    def encoder(self, topic: str) -> Any:
        return lambda value: value.upper().encode()


@pytest.mark.parametrize(
    ("value", "body"),
    [
        (b"bytes", b"bytes"),
        (bytearray(b"bytes"), b"bytes"),
        ("text", b"text"),
        ({"a": 1}, b'{"a":1}'),
        ([1, 2], b"[1,2]"),
        (Paid(number=3), b'{"number":3}'),
        (Step("tea"), b'{"article":"tea"}'),
    ],
    ids=repr,
)
def test_a_body_is_what_a_handler_could_take(value: object, body: bytes) -> None:
    async def story() -> bytes:
        sending = Sending()
        await sending.send("orders", value, queue=ON_A)
        await sending.close()
        return sending.sends(A)[0].body

    assert body == virtually(story)


def test_a_codec_makes_bodies_of_all_but_bytes() -> None:
    async def story() -> list[bytes]:
        sending = Sending(codec=Upper())
        await sending.send("orders", "text", queue=ON_A)
        await sending.send("orders", b"bytes", queue=ON_A)
        with pytest.raises(ConfigurationError, match="no body can be made of a value of type dict: "):
            await sending.send("orders", {"a": 1}, queue=ON_A)
        await sending.close()
        return [request.body for request in sending.sends(A)]

    assert [b"TEXT", b"bytes"] == virtually(story)


@pytest.mark.parametrize(
    ("options", "words", "complaint"),
    [
        ({}, {"body": 8841}, "message to orders: a value of type int cannot be a body; give bytes, text, a dict, list"),
        ({}, {"body": object()}, "message to orders: a value of type object cannot be a body; .* json.dumps"),
        ({}, {"body": b"x" * 4_194_305}, "a body of 4194305 bytes exceeds the limit of 4194304"),
        ({"body_bytes_max": 10}, {"body": b"x" * 11}, "a body of 11 bytes exceeds the limit of 10"),
        ({}, {"body": b"x", "properties": {"a": "x" * 32_768}}, "exceed the 32767 that a message can carry"),
        ({}, {"body": b"x", "properties": {"TRAN_MSG": "true"}}, "property TRAN_MSG is RocketMQ's own"),
        ({}, {"body": b"x", "delay": "soon"}, "delay: 'soon' is not a duration"),
        ({}, {"body": b"x", "delay": "5s", "delay_level": 3}, "give one of delay, at and delay_level"),
        ({}, {"body": b"x", "delay": "5s", "properties": {"DELAY": "3"}}, "a delay and property DELAY"),
        ({}, {"body": b"x", "at": datetime(2030, 1, 1)}, "write a datetime with its zone"),  # noqa: DTZ001 - the mistake
        ({}, {"body": b"x", "at": "2030-01-01"}, "write a datetime with its zone"),
        ({}, {"body": b"x", "at": datetime(1960, 1, 1, tzinfo=UTC)}, "write a time after 1970"),
    ],
)
def test_what_cannot_be_sent_is_said_before_anything_is_sent(
    options: dict[str, Any], words: dict[str, Any], complaint: str
) -> None:
    async def story() -> int:
        sending = Sending(**options)
        with pytest.raises(ConfigurationError, match=complaint):
            await sending.send("orders", **words)
        await sending.close()
        return len(sending.cluster.network.requests(A) + sending.cluster.network.requests(B))

    assert 0 == virtually(story)


# One-way


def test_a_one_way_is_written_and_nobody_waits_for_an_answer() -> None:
    async def story() -> RemotingCommand:
        sending = Sending()
        sending.cluster.both(lambda _: None)
        await sending.producer.send_one_way("orders", {"a": 1}, tags="T", queue=ON_A)
        await sending.producer.send_one_way(Message("orders", b"x", order_key="L"))
        await asyncio.sleep(0.01)
        await sending.close()
        assert [b'{"a":1}', b"x"] == [request.body for request in sending.sends(A)]
        return sending.sends(A)[0]

    request = virtually(story)

    assert request.flag & ONE_WAY_BIT
    assert "T" == properties.decode(request.fields["i"])["TAGS"]


def test_a_one_way_passes_over_a_broker_that_cannot_be_reached_unless_a_key_or_queue_binds_it() -> None:
    async def story() -> tuple[int, int]:
        sending = Sending()
        del sending.cluster.network.scripts[A]
        for _ in range(4):
            await sending.producer.send_one_way("orders", b"x")
        for bound in ({"order_key": "L"}, {"queue": ON_A}):
            with pytest.raises(BrokerUnreachable):
                await sending.producer.send_one_way("orders", b"x", **bound)
        await asyncio.sleep(0.01)
        await sending.close()
        return len(sending.sends(A)), len(sending.sends(B))

    assert (0, 4) == virtually(story)


def test_a_one_way_is_delayed_in_each_way_that_a_send_is() -> None:
    async def story() -> list[str]:
        sending = Sending()
        sending.cluster.both(brokers_that_say(WITHOUT_TIMER))
        for when in ({"delay_level": 3}, {"delay": "10s"}, {"properties": {"DELAY": "3"}}):
            await sending.producer.send_one_way("orders", b"x", queue=ON_A, **when)
        await asyncio.sleep(0.1)
        await sending.close()
        return [properties.decode(request.fields["i"])["DELAY"] for request in sending.sends(A)]

    assert ["3"] * 3 == virtually(story)


def test_a_one_way_that_nobody_takes_is_an_error() -> None:
    async def story() -> None:
        sending = Sending()
        sending.cluster.network.scripts.clear()
        sending.cluster.network.scripts[NS] = sending.cluster.name_server
        with pytest.raises(BrokerUnreachable):
            await sending.producer.send_one_way("orders", b"x")
        await sending.close()

    virtually(story)


# Batches


def in_turn(request: RemotingCommand) -> RemotingCommand:
    count = len(batch.positions(request.body))
    return RemotingCommand(0, {"msgId": ",".join(["0A"] * count), "queueId": "1", "queueOffset": "20"})


def test_a_batch_beyond_one_request_goes_in_several() -> None:
    async def story() -> list[int]:
        sending = Sending(body_bytes_max=1_000)
        sending.cluster.both(in_turn)
        messages = [Message("orders", b"x" * 100, message_id=f"M{n}") for n in range(12)]
        results = await sending.producer.send_batch(messages)
        await sending.close()
        assert [f"M{n}" for n in range(12)] == [result.message_id for result in results]
        asked = [sending.cluster.asked(address, RequestCode.SEND_BATCH_MESSAGE) for address in (A, B)]
        return sorted(len(batch.positions(request.body)) for requests in asked for request in requests)

    assert [6, 6] == virtually(story)


def test_what_was_stored_of_a_large_batch_is_told_with_the_failure_of_the_rest() -> None:
    async def story() -> PartlySent:
        sending = Sending(body_bytes_max=1_000)
        answers = iter([in_turn, refuse(13)])

        def one_after_the_other(request: RemotingCommand) -> RemotingCommand:
            answer: RemotingCommand = next(answers)(request)
            return answer

        sending.cluster.both(one_after_the_other)
        messages = [Message("orders", b"x" * 100, message_id=f"M{n}") for n in range(12)]
        with pytest.raises(PartlySent, match=r"batch to orders: 6 of 12 messages are stored, then: .*code 13") as told:
            await sending.producer.send_batch(messages)
        sending.cluster.both(refuse(13))
        with pytest.raises(Refused):
            await sending.producer.send_batch(messages)
        await sending.close()
        return told.value

    error = virtually(story)

    assert [f"M{n}" for n in range(6)] == [result.message_id for result in error.stored]
    assert isinstance(error.__cause__, Refused)


# Times


def brokers_that_say(settings: bytes | None, handle: str = "") -> Any:
    def answer(request: RemotingCommand) -> RemotingCommand:
        if request.code == RequestCode.GET_BROKER_CONFIG:
            return RemotingCommand(16, remark="no") if settings is None else RemotingCommand(0, body=settings)
        said = stored(request)
        if handle:
            said.fields["recallHandle"] = handle
        return said

    return answer


def timed(settings: bytes | None, version: int = 0, **when: Any) -> tuple[dict[str, str], int]:
    """The properties about its time that one message is sent with, and the level in its result."""

    def answer(request: RemotingCommand) -> RemotingCommand:
        said: RemotingCommand = brokers_that_say(settings)(request)
        said.version = version
        return said

    async def story() -> tuple[dict[str, str], int]:
        sending = Sending()
        sending.cluster.both(answer)
        result = await sending.send("orders", b"x", queue=ON_A, **when)
        await sending.close()
        texts = properties.decode(sending.sends(A)[0].fields["i"])
        return {name: texts[name] for name in texts if name.startswith("TIMER") or name == "DELAY"}, result.delay_level

    return virtually(story)


AT = datetime(2101, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("settings", "version", "when", "said", "level"),
    [
        (WITH_TIMER, 0, {"delay": "90s"}, {"TIMER_DELAY_MS": "90000"}, 0),
        (WITH_TIMER, 0, {"delay": 1.5}, {"TIMER_DELAY_MS": "1500"}, 0),
        (WITH_TIMER, 0, {"delay": 0}, {}, 0),
        (WITH_TIMER, 0, {"at": datetime(2001, 1, 1, tzinfo=UTC)}, {}, 0),
        (WITHOUT_TIMER, 500, {"delay": "90s"}, {"DELAY": "6"}, 6),
        (WITHOUT_TIMER, 500, {"delay": "10s"}, {"DELAY": "3"}, 3),
        (WITH_TIMER.replace(b"true", b"false"), 500, {"delay": "1m"}, {"DELAY": "5"}, 5),
        (None, 500, {"delay": "90s"}, {"TIMER_DELAY_MS": "90000"}, 0),
        (None, 400, {"delay": "90s"}, {"DELAY": "6"}, 6),
    ],
)
def test_a_time_goes_by_the_timer_where_the_broker_has_one_else_by_its_levels(
    settings: bytes | None, version: int, when: dict[str, Any], said: dict[str, str], level: int
) -> None:
    """A broker that does not show its settings is judged by its version."""
    assert (said, level) == timed(settings, version, **when)


def test_an_instant_is_sent_as_one() -> None:
    """The producer's clock only measures whether it is too far away."""

    async def story() -> dict[str, str]:
        sending = Sending()
        sending.cluster.both(brokers_that_say(WITH_TIMER.replace(b"259200", b"9999999999")))
        now_ms = sending.cluster.world.clock.now_ms()
        at = datetime.fromtimestamp(now_ms / 1000, UTC) + timedelta(hours=3)
        await sending.send("orders", b"x", queue=ON_A, at=at)
        await sending.send("orders", b"y", queue=ON_A, at=at)
        await sending.close()
        assert 1 == len(sending.cluster.asked(A, RequestCode.GET_BROKER_CONFIG)), "asked once a minute"
        assert (
            str(round(at.timestamp() * 1000)) == properties.decode(sending.sends(A)[0].fields["i"])["TIMER_DELIVER_MS"]
        )
        return properties.decode(sending.sends(A)[1].fields["i"])

    assert "TIMER_DELIVER_MS" in virtually(story)


@pytest.mark.parametrize(
    ("settings", "when", "complaint"),
    [
        (WITH_TIMER, {"delay": "4d"}, r"a delay of 4d exceeds the 3d of broker a \(timerMaxDelaySec\)"),
        (
            WITHOUT_TIMER,
            {"delay": "3m"},
            r"a delay of 3m exceeds the 2m of broker a \(messageDelayLevel: it has no timer",
        ),
    ],
)
def test_a_time_beyond_the_broker_s_limit_is_refused_here(
    settings: bytes, when: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        timed(settings, **when)


def test_a_time_beyond_the_second_broker_s_limit_does_not_say_that_nothing_is_stored() -> None:
    """The first one had a timer that reaches so far, and gave no answer: it may have the message."""

    async def story() -> None:
        sending, settings = Sending(), iter([WITH_TIMER, WITHOUT_TIMER])
        sending.cluster.both(
            lambda request: (
                RemotingCommand(0, body=next(settings)) if request.code == RequestCode.GET_BROKER_CONFIG else None
            )
        )
        with pytest.raises(BrokerUnreachable, match=r"without an answer may have stored it; .* exceeds the 2m"):
            await sending.send("orders", b"x", delay="3h")
        await sending.close()

    virtually(story)


# Recall

HANDLE = base64.urlsafe_b64encode(b"v1 orders b 4102444800000 MINE").decode()


def test_a_recall_goes_to_the_broker_that_its_handle_names() -> None:
    async def story() -> tuple[str, str, dict[str, str]]:
        sending = Sending()
        sending.cluster.both(brokers_that_say(WITH_TIMER, HANDLE))
        result = await sending.send("orders", b"x", delay="1h")
        sending.cluster.both(lambda _: RemotingCommand(0, {"msgId": "MINE"}))
        recalled = await sending.producer.recall(result.recall_handle)
        await sending.close()
        (request,) = sending.cluster.asked(B, RequestCode.RECALL_MESSAGE)
        return result.recall_handle, recalled, request.fields

    handle, recalled, fields = virtually(story)

    assert (HANDLE, "MINE") == (handle, recalled)
    assert ("orders", HANDLE, "framework_producer", "b") == (
        fields["topic"], fields["recallHandle"], fields["producerGroup"], fields["bname"],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("code", "way_out"),
    [
        (16, "recall is switched off at b: set recallMessageEnable=true there"),
        (604, "it is delivered already, or about to be"),
        (3, "b knows no recall; RocketMQ has it since 5.3.2"),
        (1, "code 1 it is"),
    ],
)
def test_a_recall_that_is_refused_names_the_way_out(code: int, way_out: str) -> None:
    async def story() -> None:
        sending = Sending()
        sending.cluster.both(refuse(code))
        with pytest.raises(Refused, match=way_out):
            await sending.producer.recall(HANDLE)
        await sending.close()

    virtually(story)


@pytest.mark.parametrize("handle", ["x", "é", base64.b64encode(b"v2 orders b 1 M").decode(), HANDLE[:-8], None])
def test_what_is_no_handle_is_never_sent(handle: Any) -> None:
    async def story() -> int:
        sending = Sending()
        with pytest.raises(ConfigurationError, match=r"recall: .* is no handle; give the SendResult.recall_handle"):
            await sending.producer.recall(handle)
        await sending.close()
        return len(sending.cluster.network.requests(NS))

    assert 0 == virtually(story)


def test_a_message_that_a_level_delays_has_no_handle() -> None:
    async def story() -> None:
        sending = Sending()
        with pytest.raises(ConfigurationError, match="recall: the message has no handle; levels give none"):
            await sending.producer.recall((await sending.send("orders", "x", delay_level=3)).recall_handle)
        await sending.close()

    virtually(story)


def test_what_a_broker_says_of_its_timer_may_be_nonsense() -> None:
    nonsense = b"timerWheelEnable=true\ntimerMaxDelaySec=soon\nmessageDelayLevel=now\n\xff\n"

    assert ({"TIMER_DELAY_MS": "90000"}, 0) == timed(nonsense, delay="90s")
