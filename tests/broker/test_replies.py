"""Replies: pushed to the client that asked, by the connection that it said it produces by; kept for nobody."""

from __future__ import annotations

from typing import Any

import pytest

from framework.wire.bodies.heartbeat import Heartbeat, ProducerData
from framework.wire.codes import RequestCode
from framework.wire.command import RemotingCommand
from framework.wire.fields import from_fields
from framework.wire.properties import decode, encode
from framework.wire.requests.send import PushReplyRequest
from tests.broker.broker_lab import BrokerLab, send_command
from tests.broker.client_lab import FakeClient

TOPIC = "DefaultCluster_REPLY_TOPIC"
PROPERTIES = {"CORRELATION_ID": "c-1", "REPLY_TO_CLIENT": "asker@1", "TTL": "3000", "MSG_TYPE": "reply"}


def reply_command(code: int = RequestCode.SEND_REPLY_MESSAGE_V2, **changes: Any) -> RemotingCommand:
    command = send_command(TOPIC, b"forty-two", **{"properties": encode(PROPERTIES), **changes})
    return RemotingCommand(code, command.fields, command.body)


def asker(lab: BrokerLab, client_id: str = "asker@1") -> FakeClient:
    client = FakeClient("127.0.0.1:60000")
    beat = Heartbeat(client_id=client_id, producers=(ProducerData(group="p"),)).encode()
    lab.ask(RemotingCommand(RequestCode.HEART_BEAT, body=beat), client)
    return client


def test_a_reply_is_pushed_to_the_client_that_asked_and_answered_when_it_is_taken() -> None:
    lab = BrokerLab()
    client = asker(lab)
    lab.ask(reply_command())

    (pushed,) = client.asked
    header = from_fields(PushReplyRequest, pushed.command.fields)
    assert (pushed.command.code, bytes(pushed.command.body)) == (326, b"forty-two")
    assert (header.topic, header.born_host, header.store_host) == (TOPIC, "127.0.0.1:50000", "127.0.0.1:10911")
    properties = decode(header.properties or "")
    assert properties.pop("PUSH_REPLY_TIME").isdigit()
    assert properties == {**PROPERTIES, "MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
    assert lab.client.answers == []
    pushed.say(RemotingCommand(0))
    (answer,) = lab.client.answers
    assert (answer.code, answer.fields["msgId"], answer.fields["queueOffset"]) == (0, "0", "0")
    assert answer.fields["MSG_REGION"] == "DefaultRegion"
    assert lab.records(TOPIC) == []


def test_the_long_header_does_the_same() -> None:
    lab = BrokerLab()
    client = asker(lab)
    fields = {
        "producerGroup": "p", "topic": TOPIC, "defaultTopic": "TBW102", "defaultTopicQueueNums": "4", "queueId": "0",
        "sysFlag": "0", "bornTimestamp": "1", "flag": "0", "properties": encode(PROPERTIES),
    }  # fmt: skip
    lab.ask(RemotingCommand(RequestCode.SEND_REPLY_MESSAGE, fields, b"x"))

    assert len(client.asked) == 1


@pytest.mark.parametrize(
    ("properties", "remark"),
    [
        ({}, "reply message properties[REPLY_TO_CLIENT] is null"),
        ({"REPLY_TO_CLIENT": "gone@1"}, "push reply message fail, channel of <gone@1> not found."),
    ],
)
def test_a_reply_that_nobody_waits_for_is_refused_as_there(properties: dict[str, str], remark: str) -> None:
    lab = BrokerLab()
    asker(lab)
    answer = lab.answer(reply_command(properties=encode(properties)))

    assert (answer.code, answer.remark) == (1, remark)


def test_a_client_that_left_is_not_there_any_more() -> None:
    lab = BrokerLab()
    client = asker(lab)
    lab.node.gone(client)

    assert lab.answer(reply_command()).code == 1


def test_a_client_that_refuses_or_says_nothing_makes_it_fail() -> None:
    lab = BrokerLab()
    client = asker(lab)
    lab.ask(reply_command())
    client.asked[0].say(RemotingCommand(1))
    lab.ask(reply_command())
    lab.timers.advance(11_000)

    assert [answer.code for answer in lab.client.answers] == [1, 1]


def test_a_body_beyond_the_limit_is_refused_before_anybody_is_asked() -> None:
    lab = BrokerLab()
    client = asker(lab)
    command = reply_command()
    answer = lab.answer(RemotingCommand(command.code, command.fields, b""))

    assert answer.code == 1
    assert client.asked == []
