"""Relays: an administrator's question goes to a member and its answer back, or the time is over."""

from __future__ import annotations

import pytest

from framework.errors import ConnectionLost
from framework.model.queue import MessageQueue
from framework.wire.bodies.connections import AllProducers, ConsumerConnections, ProducerConnections
from framework.wire.bodies.heartbeat import ConsumerData, Heartbeat, ProducerData, SubscriptionData
from framework.wire.bodies.progress import ClientOffsets
from framework.wire.codes import RequestCode, ResponseCode
from framework.wire.command import RemotingCommand
from tests.broker.broker_lab import BrokerLab
from tests.broker.client_lab import FakeClient

GROUP = "readers"
STATUS = {"topic": "t", "group": GROUP}
RUNNING = {"consumerGroup": GROUP, "clientId": "one"}


def join(lab: BrokerLab, client_id: str, *, version: int = 477) -> FakeClient:
    client = FakeClient(f"127.0.0.1:{len(client_id)}")
    subscription = SubscriptionData(topic="t", expression="red || blue", version=7)
    heartbeat = Heartbeat(
        client_id=client_id,
        producers=(ProducerData(group="makers"),),
        consumers=(ConsumerData(group=GROUP, subscriptions=(subscription,)),),
    )
    lab.ask(RemotingCommand(RequestCode.HEART_BEAT, body=heartbeat.encode(), version=version), client)
    return client


def ask(lab: BrokerLab, code: RequestCode, fields: dict[str, str]) -> None:
    lab.ask(RemotingCommand(code, fields))


def test_a_member_s_answer_is_handed_back() -> None:
    lab = BrokerLab()
    member = join(lab, "one")
    ask(lab, RequestCode.GET_CONSUMER_RUNNING_INFO, RUNNING)
    (asked,) = member.asked
    assert lab.client.answers == []

    asked.say(RemotingCommand(0, {"a": "b"}, b"{}", remark="fine"))
    (answer,) = lab.client.answers
    assert (asked.command.code, asked.command.fields) == (RequestCode.GET_CONSUMER_RUNNING_INFO, RUNNING)
    assert (answer.code, answer.fields, answer.body, answer.remark) == (0, {"a": "b"}, b"{}", "fine")


def test_a_silent_member_is_waited_for_ten_seconds_and_keeps_its_connection() -> None:
    lab = BrokerLab()
    member = join(lab, "one")
    ask(lab, RequestCode.GET_CONSUMER_RUNNING_INFO, RUNNING)
    lab.timers.advance(9_999)
    assert lab.client.answers == []

    lab.timers.advance(1)
    assert [answer.code for answer in lab.client.answers] == [ResponseCode.CONSUME_MSG_TIMEOUT]
    assert member.closed is None
    member.asked[0].say(RemotingCommand(0))
    assert len(lab.client.answers) == 1


def test_a_member_whose_connection_ends_is_not_waited_for() -> None:
    lab = BrokerLab()
    member = join(lab, "one")
    ask(lab, RequestCode.GET_CONSUMER_RUNNING_INFO, RUNNING)
    member.asked[0].fail(ConnectionLost("gone"))
    member.closed = "gone"
    ask(lab, RequestCode.GET_CONSUMER_RUNNING_INFO, RUNNING)

    assert [answer.code for answer in lab.client.answers] == [ResponseCode.CONSUME_MSG_TIMEOUT] * 2


@pytest.mark.parametrize("version", [61, None])
def test_who_is_absent_or_too_old_is_not_asked(version: int | None) -> None:
    lab = BrokerLab()
    if version is not None:
        join(lab, "one", version=version)
    ask(lab, RequestCode.GET_CONSUMER_RUNNING_INFO, RUNNING)

    assert [answer.code for answer in lab.client.answers] == [ResponseCode.SYSTEM_ERROR]


def test_a_member_is_given_the_message_itself() -> None:
    lab = BrokerLab()
    sent = lab.send(body=b"handle me")
    member = join(lab, "one")
    wish = {"consumerGroup": GROUP, "clientId": "one", "msgId": sent.fields["msgId"]}
    ask(lab, RequestCode.CONSUME_MESSAGE_DIRECTLY, wish)
    (asked,) = member.asked

    assert asked.command.fields["brokerName"] == "broker-a"
    assert b"handle me" in asked.command.body
    ask(lab, RequestCode.CONSUME_MESSAGE_DIRECTLY, {**wish, "msgId": "0" * 31 + "9"})
    assert lab.client.answers[-1].code == ResponseCode.SYSTEM_ERROR


def test_all_members_are_asked_and_the_silent_are_left_out() -> None:
    lab = BrokerLab()
    ask(lab, RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, STATUS)
    assert lab.client.answers.pop().code == ResponseCode.SYSTEM_ERROR
    first, second, third = join(lab, "one"), join(lab, "other"), join(lab, "the third")
    ask(lab, RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, STATUS)
    offsets = {MessageQueue("t", "broker-a", 0): 7}
    first.asked[0].say(RemotingCommand(0, body=ClientOffsets(offsets=offsets).encode()))
    third.asked[0].say(RemotingCommand(0, body=b"no offsets"))
    lab.timers.advance(5_000)

    (answer,) = lab.client.answers
    assert dict(ClientOffsets.decode(answer.body).clients) == {"one": offsets}
    ask(lab, RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, {**STATUS, "clientAddr": "other"})
    assert [len(member.asked) for member in (first, second, third)] == [1, 2, 1]


def test_who_is_connected_is_told() -> None:
    lab = BrokerLab()
    ask(lab, RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": GROUP})
    ask(lab, RequestCode.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": "makers"})
    assert [answer.code for answer in lab.client.answers] == [206, 1]
    join(lab, "one")
    lab.timers.advance(2000)
    ask(lab, RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": GROUP})
    connected = ConsumerConnections.decode(lab.client.answers[-1].body)
    ask(lab, RequestCode.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": "makers"})
    producing = ProducerConnections.decode(lab.client.answers[-1].body)
    ask(lab, RequestCode.GET_ALL_PRODUCER_INFO, {})
    everybody = AllProducers.decode(lab.client.answers[-1].body)

    assert [(each.client_id, each.language, each.version) for each in connected.connections] == [("one", "PYTHON", 477)]
    assert connected.subscriptions["t"].tags == ("red", "blue")
    assert connected.connections == producing.connections
    assert [each.last_update_timestamp for each in everybody.groups["makers"]] == [lab.clock.ms - 2000]
