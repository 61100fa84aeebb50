"""Settings of a running broker (25, 26): each one is acted on, kept, or ignored with a line."""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from framework.broker.store.database import open_folder
from framework.wire.codes import RequestCode, ResponseCode
from framework.wire.command import RemotingCommand
from tests.broker.administration_lab import GROUP, ask, make_group, make_topic, route
from tests.broker.broker_lab import BrokerLab, pull_command, send_back_command, send_command


def test_read_only_refuses_send_backs_and_ordered_topics_and_shows_in_routes() -> None:
    lab = BrokerLab()
    make_topic(lab, "plain")
    make_topic(lab, "ordered", order=True)
    lab.send("plain")
    (record,) = lab.records("plain")
    assert ask(lab, RequestCode.UPDATE_BROKER_CONFIG, b"brokerPermission=4\n").code == 0

    assert lab.answer(send_back_command(record, GROUP)).code == ResponseCode.NO_PERMISSION
    assert lab.send("ordered").code == ResponseCode.NO_PERMISSION
    assert lab.send("plain").code == 0
    assert route(lab, "plain").queues[0].perm == 4
    ask(lab, RequestCode.UPDATE_BROKER_CONFIG, b"brokerPermission=2")
    assert lab.answer(pull_command(0, "plain")).code == ResponseCode.NO_PERMISSION


@pytest.mark.parametrize("text", ["brokerPermission=7", "longPollingEnable=perhaps"])
def test_a_value_that_a_switch_cannot_have_is_refused(text: str) -> None:
    lab = BrokerLab()
    before = ask(lab, RequestCode.GET_BROKER_CONFIG).body
    refused = ask(lab, RequestCode.UPDATE_BROKER_CONFIG, b"autoCreateTopicEnable=false\n" + text.encode())

    assert refused.code == ResponseCode.INVALID_PARAMETER
    assert ask(lab, RequestCode.GET_BROKER_CONFIG).body == before


def test_settings_that_mean_nothing_here_are_ignored_with_a_line() -> None:
    lab = BrokerLab()
    before = ask(lab, RequestCode.GET_BROKER_CONFIG).body
    with capture_logs() as lines:
        answer = ask(lab, RequestCode.UPDATE_BROKER_CONFIG, b"flushDiskType=ASYNC_FLUSH\nautoCreateTopicEnabled=true\n")

    (line,) = lines
    assert 0 == answer.code
    assert ("settings ignored", "'flushDiskType, autoCreateTopicEnabled'") == (line["event"], line["settings"])
    assert "changes only brokerPermission, " in line["reason"]
    assert before == ask(lab, RequestCode.GET_BROKER_CONFIG).body


def test_settings_beside_a_switch_do_not_keep_it_from_being_set() -> None:
    lab = BrokerLab()
    assert (
        0
        == ask(
            lab, RequestCode.UPDATE_BROKER_CONFIG, b"sendMessageThreadPoolNums=4\nautoCreateTopicEnable=false\n"
        ).code
    )

    assert not lab.node.switches.creates_topics


def test_a_broker_is_not_led_to_other_files() -> None:
    refused = ask(BrokerLab(), RequestCode.UPDATE_BROKER_CONFIG, b"rocketmqHome=/\nautoCreateTopicEnable=false\n")

    assert (16, "Can not update config in black list.") == (refused.code, refused.remark)


def test_each_switch_is_acted_on() -> None:
    lab = BrokerLab()
    make_topic(lab)
    off = b"autoCreateTopicEnable=false\nautoCreateSubscriptionGroup=false\nlongPollingEnable=false\n"
    assert ask(lab, RequestCode.UPDATE_BROKER_CONFIG, off + b"litePullMessageEnable=false\n").code == 0

    assert lab.answer(send_command("new")).code == ResponseCode.TOPIC_NOT_EXIST
    assert lab.answer(pull_command(0, group="new")).code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    make_group(lab)
    held = pull_command(0, group=GROUP, sys_flag=6, suspend_timeout_millis=15_000)
    lab.ask(held)
    answered = len(lab.client.answers)
    lab.timers.advance(999)
    assert len(lab.client.answers) == answered, "not at once, or clients would ask thousands of times a second"
    lab.timers.advance(1)
    assert lab.client.answers[-1].code == ResponseCode.PULL_NOT_FOUND
    lite = RemotingCommand(RequestCode.LITE_PULL_MESSAGE, held.fields)
    assert lab.answer(lite).code == ResponseCode.NO_PERMISSION
    ask(lab, RequestCode.UPDATE_BROKER_CONFIG, b"litePullMessageEnable=true")
    lab.ask(lite)
    lab.timers.advance(1000)
    assert lab.client.answers[-1].code == ResponseCode.PULL_NOT_FOUND


def test_switches_outlive_a_restart(tmp_path: Path) -> None:
    lab = BrokerLab(database=open_folder(tmp_path / "data"))
    ask(lab, RequestCode.UPDATE_BROKER_CONFIG, b"brokerPermission=4")
    lab.store.close()

    assert BrokerLab(database=open_folder(tmp_path / "data")).node.switches.permission == 4
