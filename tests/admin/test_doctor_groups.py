"""Each of RocketMQ's usual traps of a group is provoked in a box, and found."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from framework.admin.cluster import Admin, BrokerPlace
from framework.admin.cluster_checks import make_topic
from framework.admin.facts import BrokerFacts, ClusterFacts
from framework.admin.positions import positions
from framework.broker.handlers import broker as broker_handlers
from framework.broker.intercept import Interceptor
from framework.broker.rules import GROUP, SUB, TOPIC, Rule, User
from framework.client.options import ClusterOptions
from framework.errors import BrokerUnreachable, ConfigurationError
from framework.model.message import Message
from framework.model.queue import MessageQueue
from framework.net.credentials import Credentials
from framework.reading import Reader, ReaderSettings
from framework.wire.bodies.heartbeat import BROADCASTING, BY_SQL
from framework.wire.bodies.running import ProcessQueueInfo
from framework.wire.codes import RequestCode, ResponseCode
from framework.wire.command import RemotingCommand
from tests.admin.doctor_lab import NOW_MS, Lab, member, only, told
from tests.patience import wait_until
from tests.reading.threads import texts


def test_a_topic_that_nobody_makes(lab: Lab) -> None:
    assert "the topic does not exist: there is no route" in only(lab.look(topics=["gone"]), "warning", "| gone |")
    for number in (0, 1):
        lab.switch("autoCreateTopicEnable", "false", number)

    line = only(lab.look(topics=["gone"]), "severe", "| gone |")

    assert "broker-a, broker-b make none: there is no route" in line
    assert f"mqadmin updateTopic -n {lab.box.address} -c DefaultCluster -t gone -r 8 -w 8  # or" in line


@pytest.mark.parametrize(
    ("perm", "severity", "words"),
    [(2, "severe", "consumers see no queue of it"), (4, "warning", "producers see no route")],
)
def test_a_topics_permission_that_shows_as_no_route(lab: Lab, perm: int, severity: str, words: str) -> None:
    lab.topic("orders", perm=perm)

    found = lab.look(topics=["orders"])

    assert [(severity, f"orders on {name}") for name in ("broker-a", "broker-b")] == told(found)
    assert words in found.findings[0].what
    assert f"mqadmin updateTopicPerm {lab.at()} -t orders -p 6" == found.findings[0].remedy


def test_what_closed_a_topic_is_told_apart(lab: Lab) -> None:
    """Its queues, and its broker; the name server alone (`wipeWritePerm`) is tried on a real cluster."""
    lab.topic("orders", queues=0)
    assert f"mqadmin updateTopic {lab.at()} -t orders -r 8 -w 8" in lab.look(topics=["orders"]).findings[0].remedy

    lab.topic("orders")
    lab.switch("brokerPermission", "4")
    line = only(lab.look(topics=["orders"]), "warning", "the topic may not be written")
    assert f"mqadmin updateBrokerConfig {lab.at()} -k brokerPermission -v 6" in line


def test_a_strange_name_stays_one_word_to_the_shell() -> None:
    place = BrokerPlace("b", "$(reboot); rm", {0: "1.2.3.4:5"})
    away = BrokerUnreachable("away")
    cluster = ClusterFacts({"127.0.0.1:9876": ["b"]}, [BrokerFacts(place, away, away, away, away, away)])

    assert "mqadmin updateTopic -n 127.0.0.1:9876 -c '$(reboot); rm' -t x -r 8 -w 8" == make_topic(cluster, "x")


def test_a_retry_topic_that_may_not_be_written(lab: Lab) -> None:
    lab.topic("%RETRY%billing", perm=4)

    assert "failed messages are not retried" in only(lab.look(), "severe", "%RETRY%billing on broker-a")


def test_a_topic_that_its_broker_has_and_no_name_server_names(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    from framework.broker.handlers import name_server

    monkeypatch.setattr(name_server, "route_of", lambda nodes, topic: None)

    line = only(lab.look(topics=["orders"]), "severe", "no name server names it")

    assert "orders on broker-a, broker-b" in line
    assert "namesrvAddr" in line


RULES = (
    Rule(GROUP, "billing", frozenset({SUB})),
    Rule(TOPIC, "payments", frozenset({SUB})),
)
WITH_USERS = {"auth": [User("root", "sesame", is_super=True), User("app", "sesame", rules=RULES)], "brokers": 1}


@pytest.mark.parametrize("lab", [WITH_USERS], indirect=True)
def test_an_access_rule_that_shows_as_no_route(lab: Lab) -> None:
    """The application's own user may not list brokers either: that is said as unknown, and never as well."""
    found = lab.look(topics=["orders"], credentials=Credentials("app", "sesame"))

    line = only(found, "severe", "User:app has no permission to access Topic:orders")
    assert "clients show such a rule as `no route`" in line
    rule = "-s User:app -r Topic:orders,Group:billing -a Sub,Get -d Allow"
    assert f"mqadmin createAcl -n {lab.box.address} -c CLUSTER {rule}  # or give other credentials" in line
    assert found.in_part > 5
    assert any("has no permission to access Cluster" in each.why for each in found.unlooked)


@pytest.mark.parametrize("lab", [WITH_USERS], indirect=True)
@pytest.mark.parametrize(
    ("credentials", "why"),
    [
        (None, "username cannot be null"),
        (Credentials("nobody", "sesame"), "User:nobody is not found"),
        (Credentials("app", "wrong"), "check signature failed"),
    ],
)
@pytest.mark.parametrize("group", ["billing", None])
def test_credentials_that_are_missing_or_wrong(
    lab: Lab, credentials: Credentials | None, why: str, group: str | None
) -> None:
    """Nothing else can be looked at, and that alone would read as if nothing was wrong."""
    found = lab.look(group, topics=["orders"], credentials=credentials)

    line = only(found, "severe", f"it refuses what this client asks: {why}")
    assert "set cluster.credentials to an access key and a secret key that the cluster knows" in line


@pytest.mark.parametrize("lab", [WITH_USERS], indirect=True)
def test_a_rule_on_the_group_that_lets_the_route_be_seen(lab: Lab) -> None:
    lab.topic("payments")

    found = lab.look("other", topics=["payments"], credentials=Credentials("app", "sesame"))

    assert [("severe", "payments")] == told(found)
    assert "reading is refused" in only(found, "severe", "no permission to access Group:other")


def test_a_topic_that_the_group_is_forbidden_to_read(lab: Lab) -> None:
    rules = lab.node().rules
    lab.box.call(lambda: rules.put_group(replace(rules.group("billing"), forbidden=("orders",))))

    assert "the broker forbids the group to read the topic" in only(lab.look(topics=["orders"]), "severe", "broker-a")


# The group at its brokers


def test_a_group_that_keeps_no_retry(lab: Lab) -> None:
    lab.group(retry_queues=0)

    line = only(lab.look(), "severe", "retryQueueNums=0", "broker-b")

    assert f"mqadmin updateSubGroup {lab.at(1)} -g billing -m true -d true -q 1" in line


def test_a_group_that_gets_nothing(lab: Lab) -> None:
    lab.group(consume_enable=False, consume_broadcast_enable=False)
    lab.join(member(model=BROADCASTING))

    found = lab.look()

    only(found, "severe", "consumeEnable=false", "broker-a")
    only(found, "severe", "consumeBroadcastEnable=false", "broker-a")


def test_a_group_that_no_broker_makes(lab: Lab) -> None:
    lab.switch("autoCreateSubscriptionGroup", "false")

    line = only(lab.look("fresh", topics=["orders"]), "severe", "does not have the group")

    assert f"mqadmin updateSubGroup {lab.at()} -g fresh -m true -d true" in line


def test_a_mistyped_group_is_an_error(lab: Lab) -> None:
    with pytest.raises(ConfigurationError, match="did you mean 'billing'"):
        lab.look("biling")


def test_sql92_is_off_where_a_member_filters_by_it(lab: Lab) -> None:
    lab.join(member(wants={"orders": "a > 5"}, by=BY_SQL))
    lab.switch("enablePropertyFilter", "false")

    assert "the group filters orders by SQL92: the broker refuses its pulls" in only(lab.look(), "severe", "broker-a")


# Members


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"wants": {"orders": "paid"}}, "members subscribe differently"),
        ({"wants": {"orders": "*", "payments": "*"}}, "members subscribe differently"),
        ({"model": BROADCASTING}, "members differ in their model"),
        ({"orderly": True}, "orderly and concurrent members"),
        ({"properties": {"allocateMessageQueueStrategy": "circle"}}, "members divide queues by different strategies"),
    ],
)
def test_members_that_do_not_fit_together(lab: Lab, other: dict[str, Any], words: str) -> None:
    lab.topic("payments")
    java = {"allocateMessageQueueStrategy": "org.apache.rocketmq.client.AllocateMessageQueueAveragely@6d06d69c"}
    ours = {"allocateMessageQueueStrategy": "averaging"}
    lab.join(
        member("m1", properties=java), member("m2", properties=ours), member("m3", **{"properties": ours, **other})
    )

    line = only(lab.look(), "severe", words)

    assert "m3" in line
    assert 1 == len(lab.look().findings), "what Java calls otherwise is no difference"


def test_a_member_that_says_nothing_is_unknown_and_not_alike(lab: Lab) -> None:
    lab.join(member("m1"), member("m2", answers=False))

    found = lab.look()

    assert [("what the member wants", "m2")] == [(each.what, each.where) for each in found.unlooked]
    assert "not told" in found.unlooked[0].why
    assert 1 == found.in_part


def test_members_whose_handlers_fail_all(lab: Lab) -> None:
    lab.join(member("m1"), member("m2", properties={"group.held": "breaker of orders, mostly ValueError: no stock"}))

    line = only(lab.look(), "severe", "breaker of orders, mostly ValueError: no stock")

    assert "m2" in line
    assert "m1" not in line


def test_a_client_id_that_two_processes_share(lab: Lab) -> None:
    lab.join(member("m1"), member("m1"), member("m2"))

    line = only(lab.look(), "severe", "several connections have one client id")

    assert "client id m1" in line
    assert "app.instance" in line


def test_more_members_than_queues(lab: Lab) -> None:
    lab.join(*(member(f"m{number}") for number in range(6)))

    assert "6 members share 4 queues: 2 of them get nothing" in only(lab.look(), "warning", "orders, group billing")


def test_broadcasting_members_may_be_as_many_as_they_like(lab: Lab) -> None:
    lab.join(*(member(f"m{number}", model=BROADCASTING) for number in range(6)))

    assert [] == lab.look().findings


# What waits


QUEUE = MessageQueue("orders", "broker-a", 0)


def fill(lab: Lab, committed: int) -> None:
    lab.box.send("orders", texts("orders", 10), queue=0)
    with Reader(ReaderSettings((lab.box.address,))) as reader:
        reader.commit("billing", QUEUE, committed)


def test_a_group_that_stands_behind_one_message(lab: Lab) -> None:
    fill(lab, 3)
    held = ProcessQueueInfo(commit_offset=3, cached_offset_min=3, cached_offset_max=9, cached_count=1)
    lab.join(member(queues=lambda: {QUEUE: held}))

    line = only(lab.look(), "warning", "the queue stands at offset 3")

    assert "6 messages behind it cannot be confirmed" in line
    assert "orders broker-a:0, member m1" in line
    assert "framework-app tail orders --from 3 --limit 1" in line


def test_a_group_that_moves_between_two_looks_is_only_behind(lab: Lab) -> None:
    fill(lab, 3)
    places = iter(range(3, 10))
    lab.join(member(queues=lambda: {QUEUE: ProcessQueueInfo(cached_offset_min=next(places), cached_count=4)}))

    assert [] == lab.look().findings


SHORT = {"group.oldest_ms": "20", "group.retries_waiting": "0"}


@pytest.mark.parametrize(
    ("moves", "said", "stands"),
    [
        (True, SHORT, False),
        (False, SHORT, True),
        (True, {**SHORT, "group.oldest_ms": "500"}, True),
        (True, {**SHORT, "group.retries_waiting": "1"}, True),
        (True, {}, True),
    ],
    ids=["another moves", "nothing moves", "a handler runs for as long", "one waits for its next try", "a Java member"],
)
def test_a_queue_that_waits_for_a_worker_does_not_stand(
    lab: Lab, moves: bool, said: dict[str, str], stands: bool
) -> None:
    fill(lab, 3)
    places = count(4, 1 if moves else 0)
    other = MessageQueue("orders", "broker-b", 1)

    def queues() -> dict[MessageQueue, ProcessQueueInfo]:
        return {
            QUEUE: ProcessQueueInfo(commit_offset=3, cached_offset_min=3, cached_count=4),
            other: ProcessQueueInfo(commit_offset=next(places), cached_count=4),
        }

    lab.join(member(queues=queues, properties=said))
    with Admin(ClusterOptions(name_servers=(lab.box.address,))) as admin:
        wait_until(lambda: (positions(admin, "billing").lag_s or 0) >= 0.1, "the message is old enough")

    assert stands == any("the queue stands" in each.what for each in lab.look(stuck_s=0.1).findings)


def test_a_member_that_is_paused_stands_by_intent(lab: Lab) -> None:
    fill(lab, 3)
    held = ProcessQueueInfo(commit_offset=3, cached_offset_min=3, cached_count=4)
    lab.join(member(queues=lambda: {QUEUE: held}, properties={"group.paused": "by ann, for a migration"}))

    assert [] == lab.look().findings


def test_retry_topics_of_pop_are_made_when_they_are_needed(lab: Lab) -> None:
    lab.join(member(wants={"orders": "*", "%RETRY%billing_orders": "*"}))

    assert [] == lab.look().findings


def test_messages_that_are_deleted_before_they_are_read(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(lab, 3)
    lab.join(member())
    assert [] == lab.look().findings
    settings_of = broker_handlers._settings_of
    monkeypatch.setattr(broker_handlers, "_settings_of", lambda node: {**settings_of(node), "fileReservedTime": "0"})

    line = only(lab.look(), "warning", "the broker deletes what is older than 0 h", "billing at broker-a")
    assert f"mqadmin updateBrokerConfig {lab.at()} -k fileReservedTime -v 72  # and start more members" in line

    lab.box.broker.intercept(
        Interceptor(
            code=RequestCode.GET_MIN_OFFSET, times=None,
            answer=RemotingCommand(ResponseCode.SUCCESS, fields={"offset": "5"}),
        )
    )  # fmt: skip
    only(lab.look(), "severe", "2 messages were deleted before the group had read them", "billing at broker-a")


def test_messages_that_nobody_reads(lab: Lab) -> None:
    fill(lab, 3)

    line = only(lab.look(), "warning", "billing")
    assert "no member is online, and 7 messages wait" in line
    assert "start the application; if a query of Spark's reads them (mode: source)" in line, "which is no member"


def test_messages_of_a_group_without_an_offset_and_without_a_member(lab: Lab) -> None:
    fill(lab, 3)
    lab.box.send("orders", texts("orders", 2), queue=1, broker="broker-a")

    (unlooked,) = lab.look().unlooked
    assert ("billing", "no member, and no offset stored in 1 queue with messages") == (
        unlooked.where, unlooked.why.partition(":")[0]
    )  # fmt: skip


def test_dead_letters_that_came_within_the_last_hour(lab: Lab) -> None:
    lab.box.send("%DLQ%billing", [Message("%DLQ%billing", b"x") for _ in range(3)], queue=0)

    line = only(lab.look(), "warning", "dead letters grow: 3 within the last hour; 3 wait")

    assert "framework-app dlq list billing" in line


def test_old_dead_letters_are_told_and_do_not_grow(lab: Lab) -> None:
    lab.box.send("%DLQ%billing", [Message("%DLQ%billing", b"x") for _ in range(3)], queue=0)

    found = lab.look(now_ms=lambda: NOW_MS() + 2 * 3_600_000)

    only(found, "notice", "3 dead letters wait; none came within the last hour")


@pytest.mark.parametrize("setting", ["auto", "topic", "local"])
def test_a_progress_topic_that_nobody_makes(lab: Lab, setting: str) -> None:
    lab.join(member(properties={"settings.progress": setting}))
    assert [] == lab.look().findings, "a broker makes it when it is needed"
    lab.switch("autoCreateTopicEnable", "false")

    found = [each for each in lab.look().findings if "%ACK%" in each.where]

    if setting == "local":
        assert [] == found
        return
    assert "%ACK%billing on broker-a" == found[0].where
    assert f"mqadmin updateTopic {lab.at()} -t %ACK%billing" in found[0].remedy
    lab.topic("%ACK%billing")
    assert [] == [each for each in lab.look().findings if "%ACK%" in each.where]
