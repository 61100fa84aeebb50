"""Offsets that an administrator resets (222): taken up once, across restarts, and checked."""

from __future__ import annotations

from pathlib import Path

import pytest

from framework.broker.store.database import open_folder
from framework.wire.codes import RequestCode
from framework.wire.command import RemotingCommand
from tests.broker.administration_lab import GROUP, ask, commit, make_group, make_topic
from tests.broker.broker_lab import BrokerLab, pull_command, send_back_command


def test_a_reset_is_taken_up_once_and_commits_wait_for_it() -> None:
    lab = BrokerLab()
    for _ in range(10):
        lab.send()
    make_topic(lab)
    make_group(lab)
    commit(lab, 9)
    reset = ask(lab, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, topic="t", group=GROUP, timestamp="0")
    assert reset.body == b'{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"t"}:0}}'

    commit(lab, 9)
    assert lab.node.offsets.get(GROUP, "t", 0) == 0
    moved = lab.answer(pull_command(9, group=GROUP, sys_flag=5, commit_offset=9))
    assert (moved.code, moved.remark, moved.fields["nextBeginOffset"]) == (21, "OFFSET_RESET", "0")
    assert lab.node.offsets.get(GROUP, "t", 0) == 0
    assert lab.answer(pull_command(0, group=GROUP)).code == 0
    commit(lab, 4)
    assert lab.node.offsets.get(GROUP, "t", 0) == 4


def test_a_reset_survives_a_restart_and_ends_held_pulls(tmp_path: Path) -> None:
    lab = BrokerLab(database=open_folder(tmp_path / "data"))
    lab.send()
    make_group(lab)
    lab.ask(pull_command(1, group=GROUP, sys_flag=6, suspend_timeout_millis=15_000))
    assert len(lab.node.holds) == 1
    reset = RemotingCommand(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, {"topic": "t", "group": GROUP, "timestamp": "0"})
    lab.ask(reset)
    lab.ask(reset)
    assert [answer.code for answer in lab.client.answers if answer.remark == "OFFSET_RESET"] == [21]
    lab.store.close()

    lab = BrokerLab(database=open_folder(tmp_path / "data"))
    assert lab.answer(pull_command(1, group=GROUP)).remark == "OFFSET_RESET"


def test_after_a_reset_what_failed_before_may_fail_again() -> None:
    lab = BrokerLab()
    lab.send()
    make_group(lab)
    (record,) = lab.records("t")

    def send_back() -> int:
        assert lab.answer(send_back_command(record, GROUP)).code == 0
        lab.timers.advance(20_000)
        return len(lab.records(f"%RETRY%{GROUP}"))

    assert [send_back(), send_back()] == [1, 1]
    ask(lab, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, topic="t", group=GROUP, timestamp="0")
    assert send_back() == 2


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"topic": "nowhere"}, 17),
        ({"group": "nobody"}, 26),
        ({"queueId": "7"}, 1),
        ({"queueId": "0", "offset": "4"}, 1),
        ({"queueId": "0", "offset": "1"}, 0),
        ({"timestamp": "-1"}, 0),
    ],
)
def test_a_reset_is_checked(fields: dict[str, str], code: int) -> None:
    lab = BrokerLab()
    lab.send()
    make_topic(lab)
    make_group(lab)
    wish = {"topic": "t", "group": GROUP, "timestamp": "0", **fields}

    assert ask(lab, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, **wish).code == code
