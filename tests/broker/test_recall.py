"""RECALL_MESSAGE: what waits is taken off the schedule, once and for all; what is due, or another's, is not."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from framework.broker.store.database import open_folder
from framework.wire.codes import RequestCode, ResponseCode
from framework.wire.command import RemotingCommand
from tests.broker.administration_lab import ask
from tests.broker.broker_lab import BrokerLab, texts


def delayed(lab: BrokerLab, body: bytes = b"later", ms: int = 5_000) -> str:
    answer = lab.send(body=body, properties=texts(TIMER_DELAY_MS=str(ms), UNIQ_KEY=f"id-{body.decode()}"))
    assert 0 == answer.code
    return answer.fields["recallHandle"]


def recall(lab: BrokerLab, handle: str, topic: str = "t") -> RemotingCommand:
    return ask(lab, RequestCode.RECALL_MESSAGE, topic=topic, recallHandle=handle)


def test_a_recalled_message_never_comes_and_the_others_do() -> None:
    lab = BrokerLab()
    handle = delayed(lab)
    delayed(lab, b"other")
    answer = recall(lab, handle)
    lab.timers.advance(60_000)

    assert (0, "id-later") == (answer.code, answer.fields["msgId"])
    assert [b"other"] == [record.body for record in lab.records("t")]


def test_asked_twice_it_succeeds_twice_and_once_it_is_due_no_more() -> None:
    lab = BrokerLab()
    handle, due = delayed(lab), delayed(lab, b"due", 1_000)
    assert [0, 0] == [recall(lab, handle).code for _ in range(2)]
    lab.timers.advance(1_000)
    refused = recall(lab, due)

    assert (ResponseCode.ILLEGAL_OPERATION, "recall failed, timestamp invalid") == (refused.code, refused.remark)
    assert [b"due"] == [record.body for record in lab.records("t")]


def test_only_messages_with_a_time_of_their_own_have_a_handle() -> None:
    """As on a stock broker: none for levels, none for a time that is over."""
    lab = BrokerLab()
    for properties in ("", texts(DELAY="3"), texts(TIMER_DELIVER_MS="1000")):
        assert "recallHandle" not in lab.send(properties=properties).fields


def test_a_switch_turns_it_off() -> None:
    lab = BrokerLab()
    handle = delayed(lab)
    assert 0 == ask(lab, RequestCode.UPDATE_BROKER_CONFIG, b"recallMessageEnable=false\n").code
    refused = recall(lab, handle)
    assert b"recallMessageEnable=false\n" in ask(lab, RequestCode.GET_BROKER_CONFIG).body
    lab.timers.advance(5_000)

    assert (ResponseCode.NO_PERMISSION, "recall failed, operation is forbidden") == (refused.code, refused.remark)
    assert 1 == len(lab.records("t"))


def forged(handle: str, **changes: str) -> str:
    names = ("version", "topic", "broker", "wall", "id", "due", "place")
    parts = dict(zip(names, base64.urlsafe_b64decode(handle).decode().split(" "), strict=True))
    return base64.urlsafe_b64encode(" ".join({**parts, **changes}.values()).encode()).decode()


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"version": "v2"}, ResponseCode.ILLEGAL_OPERATION),
        ({"topic": "u"}, ResponseCode.ILLEGAL_OPERATION),
        ({"broker": "elsewhere"}, ResponseCode.ILLEGAL_OPERATION),
        ({"id": "another"}, ResponseCode.ILLEGAL_OPERATION),
        ({"place": "0"}, ResponseCode.ILLEGAL_OPERATION),
        ({"place": "x"}, ResponseCode.ILLEGAL_OPERATION),
        ({"place": str(1 << 70)}, ResponseCode.ILLEGAL_OPERATION),
        ({"due": "1"}, ResponseCode.ILLEGAL_OPERATION),
    ],
)
def test_a_forged_handle_takes_nothing_back(changes: dict[str, str], code: int) -> None:
    lab = BrokerLab()
    lab.send(body=b"first")
    handle = delayed(lab)
    assert code == recall(lab, forged(handle, **changes)).code
    lab.timers.advance(5_000)

    assert [b"first", b"later"] == [record.body for record in lab.records("t")]


@pytest.mark.parametrize("handle", ["", "x", "====", base64.b64encode(b"v1 t broker-a 5 id").decode()])
def test_what_is_no_handle_of_this_broker_is_refused(handle: str) -> None:
    lab = BrokerLab()
    lab.send()

    assert recall(lab, handle).code != 0


def test_an_unknown_topic_is_said() -> None:
    lab = BrokerLab()
    assert ResponseCode.TOPIC_NOT_EXIST == recall(lab, delayed(lab), topic="nowhere").code


def test_it_is_done_for_good_when_it_is_answered(tmp_path: Path) -> None:
    lab = BrokerLab(database=open_folder(tmp_path))
    handle = delayed(lab)
    assert 0 == recall(lab, handle).code
    lab.node.delays.rounds.stop()
    lab.store.close()

    again = BrokerLab(database=open_folder(tmp_path))
    again.timers.advance(60_000)
    assert not again.records("t")
    again.store.close()
