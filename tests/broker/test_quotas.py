"""Quotas: what is refused with 2 while too much is under way, what never is, and that it ends."""

from __future__ import annotations

from json import dumps
from typing import Any

import pytest
from structlog.testing import capture_logs

from framework.broker import node
from framework.broker.request import Request
from framework.broker.settings import BrokerSettings
from framework.wire.codes import RequestCode
from framework.wire.command import RemotingCommand
from framework.wire.requests.pull import COMMIT_OFFSET, SUBSCRIPTION, SUSPEND
from tests.broker.broker_lab import BrokerLab, pull_command, send_command, texts
from tests.broker.client_lab import FakeClient


def test_writes_that_wait_for_the_disk_are_bounded_by_number() -> None:
    lab = BrokerLab(settings=BrokerSettings(writes_max=2))
    with capture_logs() as lines:
        lab.send()
        lab.client.answers.clear()
        for command in [send_command() for _ in range(4)] + [pull_command(1)]:
            lab.dispatch.serve(lab.request(command))
        busy = lab.client.answers[0]

        assert busy.remark == "[OVERLOAD] requests wait for the disk, 2 at most; try again later"
        assert [answer.code for answer in lab.client.answers] == [2, 2, 19]
        lab.timers.turn()
        assert [answer.code for answer in lab.client.answers[3:]] == [0, 0]
        assert lab.send().code == 0
    assert [line["event"] for line in lines] == ["requests refused", "requests accepted again"]
    assert len(lab.records("t")) == 4


def test_a_limit_that_is_entered_again_and_again_has_a_line_a_minute() -> None:
    """A client that sends faster than the disk writes had two lines every second."""
    lab = BrokerLab(settings=BrokerSettings(writes_max=2))
    with capture_logs() as lines:
        for second in range(65):
            for command in [send_command() for _ in range(4)]:
                lab.dispatch.serve(lab.request(command))
            lab.timers.turn()
            lab.send()
            lab.clock.ms += 1000
            assert second >= 60 or 2 == len(lines)

    assert ["requests refused", "requests accepted again"] * 2 == [line["event"] for line in lines]
    assert [1, 60] == [line["times"] for line in lines if "times" in line]


def test_and_by_what_they_cost_which_is_more_than_their_bodies() -> None:
    lab = BrokerLab(settings=BrokerSettings(write_bytes_max=40_000))
    small, wide = send_command(body=b"x"), send_command(properties=texts(k="p" * 10_000))
    for command in (small, wide, send_command(body=bytes(10_000)), send_command(body=b"x")):
        lab.dispatch.serve(lab.request(command))
    assert [answer.code for answer in lab.client.answers] == [2]
    lab.timers.turn()
    assert len(lab.records("t")) == 3
    assert lab.send().code == 0


def test_a_connection_that_has_little_waiting_is_served_where_a_greedy_one_is_not() -> None:
    """The last quarter is kept: one greedy producer must not shut out all others."""
    lab = BrokerLab(settings=BrokerSettings(writes_max=40, channels_max=5))
    greedy, modest = FakeClient(), FakeClient()
    for client, count in ((greedy, 40), (modest, 3)):
        for _ in range(count):
            lab.dispatch.serve(Request(send_command(), client, lab.node))
    assert ([2] * 10, [2]) == ([it.code for it in greedy.answers], [it.code for it in modest.answers])

    others = [FakeClient() for _ in range(12)]
    for client in others:
        lab.dispatch.serve(Request(send_command(), client, lab.node))
    assert 8 == sum(not client.answers for client in others), "never more than all of them together may have"
    lab.timers.turn()
    assert 0 == lab.answer(send_command(), greedy).code


def test_what_waits_is_counted_down_to_nothing() -> None:
    lab = BrokerLab()
    lab.send()
    for command in (send_command(), send_command(body=b""), send_command("no spaces"), pull_command(0)):
        lab.ask(command)
    quotas = lab.dispatch._quotas

    assert (0, 0, {}) == (quotas.writes, quotas.write_bytes, quotas._own)


def test_long_polls_of_one_connection_are_bounded() -> None:
    lab = BrokerLab(settings=BrokerSettings(waiting_pulls_max=1))
    lab.send()
    pull = pull_command(1, sys_flag=SUBSCRIPTION | SUSPEND, suspend_timeout_millis=30_000)
    lab.ask(pull, greedy := FakeClient())
    assert greedy.answers == []
    assert lab.answer(pull, greedy).code == 2
    lab.ask(pull, other := FakeClient())
    assert other.answers == []


def _heartbeat(client_id: str, **parts: Any) -> RemotingCommand:
    return RemotingCommand(RequestCode.HEART_BEAT, None, dumps({"clientID": client_id, **parts}).encode())


def _producers(*groups: str) -> dict[str, Any]:
    return {"producerDataSet": [{"groupName": group} for group in groups]}


def _consumer(group: str, *topics: str) -> dict[str, Any]:
    wants = [{"topic": topic, "subString": "*", "subVersion": 1} for topic in topics]
    return {"consumerDataSet": [{"groupName": group, "subscriptionDataSet": wants}]}


def test_what_long_polls_hold_is_bounded_and_a_body_is_not_held() -> None:
    lab = BrokerLab(settings=BrokerSettings(waiting_bytes_max=60_000))
    lab.send()
    pull = pull_command(
        1, sys_flag=SUBSCRIPTION | SUSPEND, suspend_timeout_millis=30_000, subscription=" || ".join(["tag"] * 5000)
    )
    pull.body = bytes(4_000_000)
    clients = [FakeClient() for _ in range(3)]
    commands = [RemotingCommand(pull.code, dict(pull.fields), pull.body) for _ in clients]
    for client, command in zip(clients, commands, strict=True):
        lab.ask(command, client)

    assert [[], [], [2]] == [[answer.code for answer in client.answers] for client in clients]
    assert [b"", b""] == [command.body for command in commands[:2]]
    lab.node.holds.forget(clients[0])
    lab.node.holds.forget(clients[1])
    lab.ask(pull, another := FakeClient())
    assert [] == another.answers
    lab.timers.advance(30_000)
    assert [19] == [answer.code for answer in another.answers]


def test_what_heartbeats_say_is_bounded_and_members_stay_members() -> None:
    """Names of producers by the million, or topics; whoever says no more than before is served."""
    lab = BrokerLab(settings=BrokerSettings(heartbeat_bytes_max=65_536))
    member = _heartbeat("member", **_consumer("g", "t"))
    assert 0 == lab.answer(member, inside := FakeClient()).code

    greedy = _heartbeat("greedy", **_producers(*(f"group-{number}" for number in range(5_000))))
    refused = lab.answer(greedy, outside := FakeClient())
    assert (2, True) == (refused.code, "[OVERLOAD] heartbeats" in (refused.remark or ""))
    assert len(lab.node.members.producer_groups()) < 130
    assert lab.node.members.bytes <= 65_536
    many = _heartbeat("many", **_consumer("h", *(f"topic-{number}" for number in range(1000))))
    assert 2 == lab.answer(many, FakeClient()).code
    assert lab.node.members.find("h") is None

    assert 0 == lab.answer(member, inside).code
    assert ["member"] == lab.node.members.client_ids("g")
    lab.node.gone(outside)
    assert 0 == lab.answer(_heartbeat("small", **_producers("p"), **_consumer("h", "t")), FakeClient()).code


def test_what_is_kept_of_heartbeats_is_counted_down_to_nothing() -> None:
    lab = BrokerLab()
    clients = [FakeClient() for _ in range(3)]
    for i, client in enumerate(clients):
        for topics in (("t", "u"), ("t",), ("t", "u", "v")):
            lab.ask(_heartbeat(f"client-{i}", **_producers("p", "q"), **_consumer("g", *topics)), client)
        lab.ask(_heartbeat(f"renamed-{i}", **_producers("p"), **_consumer("g", "t")), client)
    assert lab.node.members.bytes > 3000

    for client in clients:
        lab.node.gone(client)
    assert 0 == lab.node.members.bytes


def test_queues_that_hold_messages_are_bounded_and_those_that_are_there_go_on() -> None:
    lab = BrokerLab(settings=BrokerSettings(queues_max=2))
    codes = [lab.send(topic).code for topic in ("a", "b", "c", "a")]

    assert [0, 0, 2, 0] == codes


def _commit(group: str, offset: int, *, number: int = 0) -> RemotingCommand:
    fields = {"consumerGroup": group, "topic": "t", "queueId": str(number), "commitOffset": str(offset)}
    return RemotingCommand(RequestCode.UPDATE_CONSUMER_OFFSET, fields)


def test_committed_offsets_are_bounded_and_those_that_are_there_move_on() -> None:
    """Each group, topic and queue that somebody makes up would be one, in memory and on disk."""
    lab = BrokerLab(settings=BrokerSettings(offsets_max=2))
    lab.send()
    for group in ("g", "h"):
        lab.node.rules.group(group)
    codes = [lab.answer(_commit("g", 1, number=number)).code for number in range(3)]
    by_pull = pull_command(0, group="h", sys_flag=SUBSCRIPTION | COMMIT_OFFSET, commit_offset=1)
    clone = RemotingCommand(RequestCode.CLONE_GROUP_OFFSET, {"srcGroup": "g", "destGroup": "h", "topic": "t"})

    assert [0, 0, 2] == codes
    assert 0 == lab.answer(by_pull).code
    assert None is lab.node.offsets.get("h", "t", 0)
    assert 2 == lab.answer(clone).code
    assert (0, 2) == (lab.answer(_commit("g", 2)).code, lab.node.offsets.get("g", "t", 0))


def test_figures_about_names_that_somebody_makes_up_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "_FIGURES_MAX", 3)
    lab = BrokerLab()
    lab.send()
    for i in range(10):
        lab.ask(pull_command(0, group=f"g{i}"))

    assert [f"g{i}" for i in (7, 8, 9)] == [group for group, _, _ in lab.node.pulled]
    assert [f"g{i}" for i in (7, 8, 9)] == [group for group, _ in lab.node.rates]


def test_conditions_and_tags_count_with_what_they_cost_when_they_are_read() -> None:
    lab = BrokerLab()
    lab.send()
    sizes = []
    tags = " || ".join(f"tag-{i}" for i in range(200))
    sql = " OR ".join(f"a = '{i}'" for i in range(200))
    for kind, text in (("TAG", "*"), ("TAG", tags), ("SQL92", sql)):
        pull = pull_command(
            1, sys_flag=SUBSCRIPTION | SUSPEND, suspend_timeout_millis=30_000, subscription=text, expression_type=kind
        )
        before = lab.node.holds._bytes
        lab.ask(pull, FakeClient())
        sizes.append(lab.node.holds._bytes - before)

    plain, of_tags, of_sql = sizes
    assert plain < 4000
    assert of_tags > len(tags) + 200 * 50
    assert of_sql > 50 * len(sql)
