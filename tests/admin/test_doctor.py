"""Each of RocketMQ's usual traps of a cluster is provoked in a box, and found; what cannot be looked at is said."""

from __future__ import annotations

from typing import Any

import pytest

from framework.admin import facts
from framework.admin.cluster import Admin
from framework.admin.doctor import diagnose
from framework.broker.handlers import broker as broker_handlers
from framework.broker.intercept import Interceptor
from framework.client.options import ClusterOptions
from framework.errors import BrokerUnreachable
from framework.wire.codes import RequestCode, ResponseCode
from framework.wire.command import RemotingCommand
from tests.admin.doctor_lab import NOW_MS, Lab, member, only
from tests.reading.threads import thread_box


def test_where_all_is_well_nothing_is_found_and_every_check_was_made(lab: Lab) -> None:
    lab.join(member("m1"), member("m2"))

    found = lab.look()

    assert [] == found.findings
    assert [] == found.unlooked
    assert 0 == found.in_part
    assert found.checks > 15


@pytest.mark.parametrize(("times", "unlooked"), [(1, 0), (2, 2)])
def test_figures_that_a_broker_fails_to_count_are_asked_for_once_more(lab: Lab, times: int, unlooked: int) -> None:
    lab.join(member("m1"), member("m2"))
    lab.box.broker.intercept(
        Interceptor(
            code=RequestCode.GET_BROKER_RUNTIME_INFO, times=times,
            answer=RemotingCommand(ResponseCode.SYSTEM_ERROR, remark="java.util.NoSuchElementException"),
        )
    )  # fmt: skip
    assert unlooked == len(lab.look().unlooked)


# Brokers


@pytest.mark.parametrize(
    ("name", "text", "severity", "words"),
    [
        ("autoCreateSubscriptionGroup", "false", "notice", "a new group gets nothing"),
        ("enablePropertyFilter", "false", "notice", "a consumer with a SQL92 filter is refused"),
        ("brokerPermission", "4", "severe", "may not be written (brokerPermission=4)"),
        ("brokerPermission", "2", "severe", "may not be read (brokerPermission=2)"),
    ],
)
def test_a_switch_of_a_broker_is_found_with_the_command_that_sets_it(
    lab: Lab, name: str, text: str, severity: str, words: str
) -> None:
    lab.switch(name, text)

    line = only(lab.look(None), severity, words, "broker-a |")

    assert f"mqadmin updateBrokerConfig {lab.at()} -k {name} -v {'6' if text.isdecimal() else 'true'}" in line


@pytest.mark.parametrize("text", ["false", "true"])
def test_a_broker_that_makes_no_topics(lab: Lab, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Also one that got the switch after its start, and has no template: no name server has a route for that."""
    lab.switch("autoCreateTopicEnable", text)
    if text == "true":
        monkeypatch.setattr(facts, "_has_queues", lambda route, broker: broker != "broker-a")

    line = only(lab.look(None), "notice", "the first send to a new topic fails", "broker-a |")

    assert ("it was started with false" in line) == (text == "true")
    assert f"mqadmin updateTopic {lab.at()} -t TOPIC -r 8 -w 8  # for each TOPIC" in line


@pytest.mark.parametrize(
    ("settings", "severity", "words", "remedy"),
    [
        ({"timerWheelEnable": "false"}, "notice", "delays take a level", "-k timerWheelEnable -v"),
        ({"transientStorePoolEnable": "true"}, "notice", "is lost if its process is killed", "Enable=false in broker"),
        ({"maxMessageSize": "1024"}, "notice", "which broker-b takes up to 4194304", "-k maxMessageSize -v 4194304"),
    ],
)
def test_a_setting_that_surprises(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], severity: str, words: str, remedy: str
) -> None:
    settings_of = broker_handlers._settings_of
    monkeypatch.setattr(
        broker_handlers, "_settings_of",
        lambda node: {**settings_of(node), **(settings if node.name == "broker-a" else {})},
    )  # fmt: skip

    assert remedy in only(lab.look(None), severity, words, "broker-a |")


@pytest.mark.parametrize(
    ("ratio", "full", "severity", "words"),
    [
        (0.84, "90", None, ""),
        (0.86, "90", "warning", "it deletes its oldest messages, read or not, and from 90% on it takes none"),
        (0.91, "90", "severe", "from 90% on it takes no message (code 14)"),
        (0.91, "99", "severe", "from 90% on it takes no message (code 14)"),
        (0.60, "50", "severe", "from 50% on it takes no message (code 14)"),
    ],
)
def test_a_disk_that_is_nearly_full(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, ratio: float, full: str, severity: str | None, words: str
) -> None:
    """A broker takes no more than 90 for diskSpaceWarningLevelRatio."""
    monkeypatch.setattr(type(lab.node().store), "disk_ratio", lambda _: ratio)
    settings_of = broker_handlers._settings_of
    monkeypatch.setattr(
        broker_handlers, "_settings_of", lambda node: {**settings_of(node), "diskSpaceWarningLevelRatio": full}
    )

    found = lab.look(None)

    if severity is None:
        assert [] == found.findings
    else:
        only(found, severity, words, f"its disk is {ratio:.0%} full", "broker-b |")


def test_an_advertised_address_that_cannot_be_reached(lab: Lab) -> None:
    """The name server goes on to name the broker, as it does where brokerIP1 is an address inside of a container."""
    lab.box.call(lab.box.broker._listeners[1].close)

    line = only(lab.look(None), "severe", "cannot be reached from here")

    address = lab.node(1).address
    assert f"| broker-b {address} |" in line
    assert f'cluster.address_map={{"{address}": "HOST:PORT"}}' in line
    assert "brokerIP1" in line


def test_a_name_server_that_is_away_and_one_that_knows_other_brokers(lab: Lab) -> None:
    with thread_box() as stranger:
        found = lab.look(None, name_servers=(lab.box.address, stranger.address, "127.0.0.1:1"))

    assert "127.0.0.1:1" in only(found, "warning", "a name server does not answer")
    assert f"name server {stranger.address}" in only(found, "severe", "does not know broker-b")
    assert "the first send to a new topic fails" not in str(found.findings), "one name server knows the template"


def test_where_no_name_server_answers_there_is_no_verdict() -> None:
    with (
        Admin(ClusterOptions(name_servers=("127.0.0.1:1",))) as admin,
        pytest.raises(BrokerUnreachable, match="refused"),
    ):
        diagnose(admin, NOW_MS)


@pytest.mark.parametrize(("off_ms", "severity"), [(40_000, "warning"), (-40_000, "warning"), (3_600_000, "severe")])
def test_clocks_that_differ(lab: Lab, off_ms: int, severity: str) -> None:
    """Ours is set here: which of two clocks is wrong nobody can tell."""
    found = lab.look(None, now_ms=lambda: NOW_MS() - off_ms)

    side = "ahead of" if off_ms > 0 else "behind"
    lines = [each.what for each in found.findings if each.severity == severity]
    assert 2 == len(lines), "one a broker"
    assert f"s {side} this machine's" in lines[0]
    # A question and its answer take their time, by which the bound is lower.
    seconds = int(lines[0].partition("at least ")[2].partition(" s ")[0].replace(",", ""))
    assert 0 < seconds <= abs(off_ms) / 1000


# Topics and rights


# All of them


def test_without_a_group_each_one_is_looked_at(lab: Lab) -> None:
    lab.group("shipping", retry_queues=0)
    steps: list[tuple[int, int]] = []

    found = lab.look(None, advance=lambda done, total: steps.append((done, total)))

    assert (2, 2) == steps[-1]
    assert "-g shipping" in only(found, "severe", "retryQueueNums=0", "broker-a")


def test_the_doctor_changes_nothing(lab: Lab) -> None:
    def state() -> list[Any]:
        return [
            (node.name, sorted(node.rules.topics.items()), sorted(node.rules.groups.items()))
            for node in lab.box.broker.nodes
        ]

    before = repr(lab.box.call(state))

    lab.look(topics=["gone", "orders"])
    lab.look("stranger", topics=["orders"])

    assert before == repr(lab.box.call(state))
