"""Heartbeats as other clients write them are taken, and one that is refused is a line a minute in the log."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from framework.broker.settings import BrokerSettings
from framework.wire.codes import RequestCode
from framework.wire.command import RemotingCommand
from tests.broker.broker_lab import BrokerLab

OF_CPP = (
    b'{"clientID":"c","consumerDataSet":[{"consumeFromWhere":0,"consumeType":1,"groupName":"g","messageModel":1,'
    b'"subscriptionDataSet":[{"subString":"*","subVersion":"1795000000000","topic":"t"}]}],"producerDataSet":[]}'
)
LINE = ("heartbeat refused", "warning")


def heartbeat(body: bytes) -> RemotingCommand:
    return RemotingCommand(RequestCode.HEART_BEAT, body=body)


def test_the_heartbeat_of_the_client_in_cpp_makes_it_a_member() -> None:
    lab = BrokerLab()
    answer = lab.answer(heartbeat(OF_CPP))
    group = lab.node.members.find("g")

    assert (0, ["c"]) == (answer.code, lab.node.members.client_ids("g"))
    assert group is not None
    assert ("CONSUME_PASSIVELY", "CLUSTERING") == (group.consume_type, group.message_model)


def test_a_refused_heartbeat_is_a_line_a_minute() -> None:
    lab = BrokerLab()
    with capture_logs() as lines:
        for _ in range(61):
            assert 1 == lab.answer(heartbeat(b'{"clientID":"c","consumerDataSet":5,"\x1b[2J":1}')).code
            lab.timers.advance(1001)

    assert [LINE] * 2 == [(line["event"], line["log_level"]) for line in lines]
    assert [1, 60] == [line["times"] for line in lines]
    assert {"Heartbeat.consumerDataSet=5 is not a list"} == {line["reason"] for line in lines}


@pytest.mark.parametrize("body", [b"\xff", b'{"clientID":"\\u001b[2J","consumerDataSet":"\\u202e"}'])
def test_its_line_holds_nothing_that_a_terminal_acts_upon(body: bytes) -> None:
    with capture_logs() as lines:
        BrokerLab().answer(heartbeat(body))

    assert all(str(line["reason"]).isprintable() for line in lines)
    assert 1 == len(lines)


def test_one_that_is_refused_for_its_signature_or_by_a_limit_is_told_as_well() -> None:
    unsigned = BrokerLab(verify=lambda command, peer: "username cannot be null.")
    full = BrokerLab(settings=BrokerSettings(heartbeat_bytes_max=1))
    with capture_logs() as lines:
        assert 16 == unsigned.answer(heartbeat(OF_CPP)).code
        assert 2 == full.answer(heartbeat(OF_CPP)).code

    assert [LINE] * 2 == [(line["event"], line["log_level"]) for line in lines]


def test_no_other_request_is_a_line() -> None:
    with capture_logs() as lines:
        BrokerLab().answer(RemotingCommand(RequestCode.LOCK_BATCH_MQ, body=b"{"))

    assert [] == lines
