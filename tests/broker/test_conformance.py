"""What a real RocketMQ 5.5.0 was seen to answer, asked of ours: the rows that part 1 covers, one test a row or table.

Where ours differs on purpose, the test says so with its reason.
"""

from __future__ import annotations

from typing import Any

import pytest

from framework.broker.request import Request
from framework.model.queue import MessageQueue
from framework.model.reserved import SCHEDULE_TOPIC
from framework.wire.bodies.group import ConsumerList, LockBatch, LockedQueues
from framework.wire.bodies.heartbeat import CheckClientConfig, ConsumerData, Heartbeat, ProducerData, SubscriptionData
from framework.wire.bodies.route import ClusterInfo, TopicRoute
from framework.wire.codes import RequestCode
from framework.wire.command import RemotingCommand
from framework.wire.fields import command_for
from framework.wire.requests.admin import UpdateTopicRequest
from framework.wire.requests.group import (
    HeartbeatRequest,
    LockRequest,
    MembersRequest,
    UnlockRequest,
    UnregisterRequest,
)
from framework.wire.requests.route import RouteRequest
from tests.broker.broker_lab import ADDRESS, BrokerLab, pull_command
from tests.broker.client_lab import FakeClient


def heartbeat(
    client_id: str = "c", group: str = "g", topic: str = "t", version: int = 1, **changes: Any
) -> RemotingCommand:
    consumer = ConsumerData(group=group, subscriptions=(SubscriptionData(topic=topic, version=version),), **changes)
    return command_for(HeartbeatRequest(), Heartbeat(client_id=client_id, consumers=(consumer,)).encode())


def route(topic: str, *, version: int, accept: bool | None = None) -> RemotingCommand:
    command = command_for(RouteRequest(topic=topic, accept_standard_json_only=accept))
    command.version = version
    return command


@pytest.mark.parametrize(
    ("version", "accept", "key"),
    [(399, None, b"{0:"), (401, None, b'{"0":'), (317, True, b'{"0":'), (317, False, b"{0:"), (477, None, b'{"0":')],
)
def test_the_route_s_json_follows_the_asker_s_version(version: int, accept: bool | None, key: bytes) -> None:
    answer = BrokerLab().answer(route("TBW102", version=version, accept=accept))

    assert answer.code == 0
    assert b'"brokerAddrs":' + key in answer.body
    found = TopicRoute.decode(answer.body)
    assert [(queue.read_queue_nums, queue.perm, queue.broker_name) for queue in found.queues] == [(8, 7, "broker-a")]
    assert [(broker.broker_addrs, broker.cluster) for broker in found.brokers] == [({0: ADDRESS}, "DefaultCluster")]


def test_a_topic_nobody_has_has_no_route() -> None:
    answer = BrokerLab().answer(route("absent", version=477))

    assert (answer.code, answer.body) == (17, b"")


def test_a_topic_is_routable_as_soon_as_a_send_has_made_it() -> None:
    lab = BrokerLab()
    lab.send("new")

    (queue,) = TopicRoute.decode(lab.answer(route("new", version=477)).body).queues
    assert (queue.read_queue_nums, queue.write_queue_nums, queue.perm) == (4, 4, 6)


def test_the_cluster_s_json_has_no_quotes_round_integers_whoever_asks() -> None:
    answer = BrokerLab().answer(RemotingCommand(RequestCode.GET_BROKER_CLUSTER_INFO))

    assert b"{0:" in answer.body
    info = ClusterInfo.decode(answer.body)
    assert info.clusters == {"DefaultCluster": ("broker-a",)}
    assert info.brokers["broker-a"].broker_addrs == {0: ADDRESS}


def test_a_heartbeat_makes_the_group_and_its_retry_topic() -> None:
    lab = BrokerLab()
    answer = lab.answer(heartbeat())
    topic = lab.node.rules.topics.get("%RETRY%g")

    assert (answer.code, answer.fields) == (0, {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true"})
    assert answer.version >= 232, "or Java clients refuse to filter"
    assert topic is not None
    assert (topic.read_queues, topic.write_queues, topic.perm) == (1, 1, 6)
    assert lab.answer(heartbeat()).fields["IS_SUB_CHANGE"] == "true", "said to all that have no fingerprint"


def test_a_newcomer_is_answered_and_told_of_itself_in_one_turn() -> None:
    lab, client = BrokerLab(), FakeClient()
    lab.dispatch.serve(Request(heartbeat(), client, lab.node))

    assert [answer.code for answer in client.answers] == [0]
    assert [notice.code for notice in client.sent] == [RequestCode.NOTIFY_CONSUMER_IDS_CHANGED]


def beat(lab: BrokerLab, fingerprint: int, *, client: FakeClient, topic: str = "t", is_short: bool = False) -> bool:
    """A heartbeat with a fingerprint; whether the broker says that something has changed."""
    subscriptions = () if is_short else (SubscriptionData(topic=topic, version=1),)
    body = Heartbeat(
        client_id="c",
        consumers=(ConsumerData(group="g", subscriptions=subscriptions),),
        fingerprint=fingerprint,
        is_without_subscriptions=is_short,
    ).encode()
    fields = lab.answer(command_for(HeartbeatRequest(), body), client).fields
    assert fields["IS_SUPPORT_HEART_BEAT_V2"] == "true"
    return fields["IS_SUB_CHANGE"] == "true"


def test_a_short_heartbeat_keeps_what_a_whole_one_said_until_another_fingerprint_is_seen() -> None:
    lab, client, other = BrokerLab(), FakeClient(), FakeClient()

    assert not beat(lab, 5, client=client)
    for _ in range(3):
        assert not beat(lab, 5, client=client, is_short=True)
    group = lab.node.members.find("g")
    assert group is not None
    assert ["t"] == list(group.wanted)

    assert beat(lab, 6, client=other, topic="u"), "another one than the last"
    assert ["u"] == list(group.wanted)
    assert beat(lab, 5, client=client, is_short=True), "so a whole one is to follow"
    assert not beat(lab, 5, client=client)
    assert ["t"] == list(group.wanted)

    lab.ask(heartbeat())
    assert beat(lab, 5, client=client, is_short=True), "one without a fingerprint may have said anything"


def test_a_short_heartbeat_on_a_connection_that_said_nothing_asks_for_a_whole_one() -> None:
    lab = BrokerLab()
    first = FakeClient()

    assert beat(lab, 5, client=first, is_short=True)
    assert ["c"] == lab.node.members.client_ids("g"), "it is a member all the same"
    assert not beat(lab, 5, client=first)
    assert beat(lab, 5, client=FakeClient(), is_short=True)


def test_what_a_heartbeat_made_is_there_after_a_restart() -> None:
    lab = BrokerLab()
    lab.answer(heartbeat())
    lab.timers.advance(500)
    again = BrokerLab(database=lab.database)

    assert "%RETRY%g" in again.node.rules.topics
    assert "g" in again.node.rules.groups


def test_a_group_that_cannot_be_is_skipped_and_the_heartbeat_answered_0() -> None:
    lab = BrokerLab()

    assert lab.answer(heartbeat(group="a b")).code == 0
    assert lab.node.members.client_ids("a b") == []


def test_a_heartbeat_that_is_none_is_refused_with_what_is_wrong() -> None:
    answer = BrokerLab().answer(RemotingCommand(RequestCode.HEART_BEAT, body=b'{"clientID": null}'))

    assert (answer.code, "clientID" in str(answer.remark)) == (1, True)


def test_producers_are_known_by_their_heartbeat() -> None:
    lab = BrokerLab()
    body = Heartbeat(client_id="p", producers=(ProducerData(group="makers"),)).encode()
    lab.ask(command_for(HeartbeatRequest(), body))

    assert [member.client_id for member in lab.node.members.producers("makers")] == ["p"]
    lab.ask(command_for(UnregisterRequest(client_id="p", producer_group="makers")))
    assert lab.node.members.producers("makers") == []


def test_two_connections_of_one_client_are_listed_twice_and_both_are_told() -> None:
    lab = BrokerLab()
    first, second = FakeClient(), FakeClient()
    lab.ask(heartbeat(), first)
    lab.timers.advance(1000)
    first.sent.clear()
    lab.ask(heartbeat(), second)
    listed = ConsumerList.decode(lab.answer(command_for(MembersRequest(consumer_group="g"))).body)

    lab.timers.advance(100)

    assert listed.consumer_ids == ("c", "c")
    assert [(notice.code, notice.flag) for notice in first.sent + second.sent] == [(40, 2), (40, 2)]


def test_the_only_member_leaves_and_the_list_is_refused_with_1() -> None:
    lab = BrokerLab()
    lab.ask(heartbeat())
    left = lab.answer(command_for(UnregisterRequest(client_id="c", consumer_group="g")))
    answer = lab.answer(command_for(MembersRequest(consumer_group="g")))

    assert left.code == 0
    assert answer.code == 1
    assert str(answer.remark).startswith("no consumer for this group")


def test_a_member_with_another_topic_shuts_the_first_out_until_its_next_heartbeat() -> None:
    lab = BrokerLab()
    lab.send("t")
    lab.send("u")
    first, second = FakeClient(), FakeClient()
    lab.ask(heartbeat("a", topic="t"), first)
    lab.ask(heartbeat("b", topic="u"), second)
    pull = pull_command(0, sys_flag=0, sub_version=1)

    assert lab.answer(pull, first).code == 24
    assert lab.answer(heartbeat("a", topic="t"), first).fields["IS_SUB_CHANGE"] == "true"
    assert lab.answer(pull, first).code == 0


def test_a_closed_connection_leaves_its_groups() -> None:
    lab = BrokerLab()
    stays, breaks = FakeClient(), FakeClient()
    lab.ask(heartbeat("a"), stays)
    lab.ask(heartbeat("b"), breaks)
    lab.timers.advance(1000)
    stays.sent.clear()
    lab.node.gone(breaks)
    lab.timers.turn()

    assert lab.node.members.client_ids("g") == ["a"]
    assert [notice.code for notice in stays.sent] == [40]


def test_queue_locks_have_one_owner() -> None:
    lab = BrokerLab()
    queue = MessageQueue("t", "broker-a", 0)

    def lock(client_id: str) -> tuple[MessageQueue, ...]:
        body = LockBatch(group="g", client_id=client_id, queues=(queue,)).encode()
        return LockedQueues.decode(lab.answer(command_for(LockRequest(), body)).body).queues

    assert [lock("a"), lock("b"), lock("a")] == [(queue,), (), (queue,)]
    body = LockBatch(group="g", client_id="a", queues=(queue,)).encode()
    assert lab.answer(command_for(UnlockRequest(), body)).code == 0
    assert lock("b") == (queue,)


def test_a_queue_lock_runs_out_after_60_seconds() -> None:
    lab = BrokerLab()
    queue = MessageQueue("t", "broker-a", 0)
    for client_id, granted in (("a", 1), ("b", 0)):
        body = LockBatch(group="g", client_id=client_id, queues=(queue,)).encode()
        found = LockedQueues.decode(lab.answer(command_for(LockRequest(), body)).body)
        assert len(found.queues) == granted
    lab.timers.advance(60_001)

    body = LockBatch(group="g", client_id="b", queues=(queue,)).encode()
    assert LockedQueues.decode(lab.answer(command_for(LockRequest(), body)).body).queues == (queue,)


def test_filters_are_checked_and_sql_can_be_switched_off() -> None:
    lab = BrokerLab()

    def check(kind: str, expression: str = "a > 5") -> tuple[int, str]:
        subscription = SubscriptionData(topic="t", expression=expression, expression_type=kind)
        body = CheckClientConfig(client_id="c", group="g", subscription=subscription).encode()
        answer = lab.answer(RemotingCommand(RequestCode.CHECK_CLIENT_CONFIG, body=body))
        return answer.code, answer.remark or ""

    assert check("TAG") == check("") == check("SQL92") == (0, "")
    code, remark = check("SQL92", "a > ")
    assert (code, "character 5" in remark) == (23, True)
    assert check("CLASS") == (23, "'CLASS' is no kind of expression: use TAG or SQL92")

    lab.node.switches.put("enablePropertyFilter", "false")
    for kind in ("SQL92", "CLASS"):
        assert check(kind) == (1, f"The broker does not support consumer to filter message by {kind}")
    assert check("TAG") == (0, "")


@pytest.mark.parametrize(
    ("topic", "changes", "code"),
    [
        ("made", {}, 0),
        ("a b", {}, 29),
        ("TBW102", {}, 29),
        (SCHEDULE_TOPIC, {}, 29),
        ("broker-a", {}, 29),
        ("made", {"read_queue_nums": -1}, 29),
        ("made", {"write_queue_nums": 1025}, 29),
        ("made", {"perm": 8}, 29),
        ("made", {"attributes": "nonsense"}, 29),
    ],
)
def test_topics_made_on_request(topic: str, changes: dict[str, Any], code: int) -> None:
    lab = BrokerLab()
    header = UpdateTopicRequest(
        **{
            "topic": topic,
            "default_topic": "TBW102",
            "read_queue_nums": 3,
            "write_queue_nums": 2,
            "perm": 6,
            "attributes": "+message.type=FIFO",
            **changes,
        }
    )
    assert lab.answer(command_for(header)).code == code
    found = lab.node.rules.topics.get("made")
    if code == 0:
        assert found is not None
        assert (found.read_queues, found.write_queues, found.attributes) == (3, 2, {"message.type": "FIFO"})
        assert "made" in BrokerLab(database=lab.database).node.rules.topics
    else:
        assert found is None
