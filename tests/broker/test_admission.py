"""Admission: a newcomer counts after a while, one that flaps after a longer one; by lists of members and notices."""

from __future__ import annotations

import pytest

from framework.broker.settings import BrokerSettings
from framework.wire.bodies.connections import ConsumerConnections
from framework.wire.bodies.group import ConsumerList
from framework.wire.bodies.heartbeat import ConsumerData, Heartbeat, SubscriptionData
from framework.wire.codes import RequestCode, ResponseCode
from framework.wire.command import RemotingCommand
from tests.broker.broker_lab import BrokerLab
from tests.broker.client_lab import FakeClient


class _Group:
    """A group on a box that watches newcomers for ten seconds."""

    def __init__(self, admission_ms: int = 10_000) -> None:
        self.lab = BrokerLab(settings=BrokerSettings(admission_ms=admission_ms))

    def heartbeat(self, client: FakeClient, client_id: str) -> None:
        data = ConsumerData(
            group="g", consume_type="CONSUME_PASSIVELY", message_model="CLUSTERING",
            consume_from="CONSUME_FROM_LAST_OFFSET", subscriptions=(SubscriptionData(topic="t"),),
        )  # fmt: skip
        body = Heartbeat(client_id=client_id, consumers=(data,)).encode()
        assert self.lab.answer(RemotingCommand(RequestCode.HEART_BEAT, body=body), client).code == 0

    def listed(self) -> list[str]:
        answer = self.lab.answer(RemotingCommand(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "g"}))
        return [] if answer.code != 0 else list(ConsumerList.decode(answer.body).consumer_ids)

    def shown(self) -> list[str]:
        answer = self.lab.answer(RemotingCommand(RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": "g"}))
        return [each.client_id for each in ConsumerConnections.decode(answer.body).connections]


def test_by_default_everybody_counts_at_once() -> None:
    group = _Group(admission_ms=0)
    group.heartbeat(FakeClient(), "a")

    assert group.listed() == ["a"]


def test_a_newcomer_counts_after_ten_seconds_and_is_seen_before() -> None:
    group = _Group()
    steady, newcomer = FakeClient(), FakeClient()
    group.heartbeat(steady, "steady")
    group.lab.timers.advance(10_200)
    group.heartbeat(newcomer, "newcomer")
    steady.sent.clear()
    group.lab.timers.advance(9_999)

    assert (group.listed(), group.shown(), steady.sent) == (["steady"], ["steady", "newcomer"], [])
    group.lab.timers.advance(101)
    assert (group.listed(), len(steady.sent)) == (["steady", "newcomer"], 1)


def test_a_heartbeat_meanwhile_admits_nobody_sooner() -> None:
    group = _Group()
    client = FakeClient()
    for _ in range(3):
        group.heartbeat(client, "a")
        group.lab.timers.advance(3000)

    assert group.listed() == []
    group.lab.timers.advance(1000)
    assert group.listed() == ["a"]


def test_a_member_that_reconnects_every_three_seconds_changes_no_assignment() -> None:
    """For two minutes, beside five that stay: the same list each time, and not one notice."""
    group = _Group()
    steady = [FakeClient() for _ in range(5)]
    for i, client in enumerate(steady):
        group.heartbeat(client, str(i))
    group.lab.timers.advance(20_000)
    for client in steady:
        client.sent.clear()
    lists = set()
    for _ in range(40):
        flapper = FakeClient()
        group.heartbeat(flapper, "flapper")
        group.lab.timers.advance(2_900)
        lists.add(tuple(group.listed()))
        group.lab.node.gone(flapper)
        group.lab.timers.advance(100)
        for i, client in enumerate(steady):
            group.heartbeat(client, str(i))

    assert lists == {("0", "1", "2", "3", "4")}
    assert all(client.sent == [] for client in steady)


@pytest.mark.parametrize(("flaps", "wait_s"), [(0, 10), (1, 20), (2, 40), (3, 80), (4, 160), (5, 300), (9, 300)])
def test_each_flap_doubles_the_wait_up_to_five_minutes(flaps: int, wait_s: int) -> None:
    group = _Group()
    for _ in range(flaps):
        client = FakeClient()
        group.heartbeat(client, "a")
        group.lab.timers.advance(3000)
        group.lab.node.gone(client)
    # Silence ends membership after two minutes, so it says something meanwhile.
    client = FakeClient()
    group.heartbeat(client, "a")
    for _ in range(wait_s // 10 - 1):
        group.lab.timers.advance(10_000)
        group.heartbeat(client, "a")
    group.lab.timers.advance(9_900)
    assert group.listed() == []

    group.lab.timers.advance(200)
    assert group.listed() == ["a"]


def test_who_was_steady_for_seven_minutes_begins_anew() -> None:
    group = _Group()
    for stay_s in (3, 430):
        client = FakeClient()
        for _ in range(0, stay_s, 10):
            group.heartbeat(client, "a")
            group.lab.timers.advance(10_000)
        group.lab.node.gone(client)
    group.heartbeat(FakeClient(), "a")
    group.lab.timers.advance(10_100)

    assert group.listed() == ["a"]


@pytest.mark.parametrize("apart_ms", [0, 37, 100, 111])
def test_ten_joins_within_a_second_give_one_notice_to_each_member(apart_ms: int) -> None:
    """Whether they come at once or evenly spread: those watched together count from the same moment."""
    group = _Group()
    members = [FakeClient() for _ in range(3)]
    for i, client in enumerate(members):
        group.heartbeat(client, f"member-{i}")
    group.lab.timers.advance(20_000)
    for client in members:
        client.sent.clear()
    newcomers = [FakeClient() for _ in range(10)]
    lists = set()
    for i, client in enumerate(newcomers):
        group.heartbeat(client, f"newcomer-{i}")
        group.lab.timers.advance(apart_ms)
    for _ in range(200):
        group.lab.timers.advance(100)
        lists.add(len(group.listed()))

    assert [len(client.sent) for client in members + newcomers] == [1] * 13
    assert lists == {3, 13}, "one change, and the told have the full list"


def test_ten_that_begin_a_group_within_a_second_are_told_once() -> None:
    group = _Group()
    newcomers = [FakeClient() for _ in range(10)]
    for i, client in enumerate(newcomers):
        group.heartbeat(client, f"newcomer-{i}")
        group.lab.timers.advance(100)
    group.lab.timers.advance(20_000)

    assert [len(client.sent) for client in newcomers] == [1] * 10


def test_nobody_waits_longer_than_a_second_for_those_who_came_behind() -> None:
    group = _Group()
    for i in range(30):
        group.heartbeat(FakeClient(), str(i))
        group.lab.timers.advance(100)
    group.lab.timers.advance(8_050)  # eleven seconds since the first

    assert group.listed()[:11] == [str(i) for i in range(11)]


def test_a_newcomer_that_leaves_holds_up_nobody() -> None:
    group = _Group()
    first, second = FakeClient(), FakeClient()
    group.heartbeat(first, "first")
    group.lab.timers.advance(500)
    group.heartbeat(second, "second")
    group.lab.timers.advance(5_000)
    group.lab.node.gone(second)
    group.lab.timers.advance(4_600)

    assert group.listed() == ["first"]


def test_a_group_of_newcomers_only_has_no_list_yet() -> None:
    group = _Group()
    group.heartbeat(FakeClient(), "a")
    answer = group.lab.answer(RemotingCommand(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "g"}))

    assert answer.code == ResponseCode.SYSTEM_ERROR
