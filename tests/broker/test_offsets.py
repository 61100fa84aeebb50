"""Offsets: commits and queries, a queue's ends, and what is on disk when."""

from __future__ import annotations

import pytest

from framework.broker.handlers import offsets
from framework.broker.store.database import open_given
from framework.wire.codes import RequestCode
from framework.wire.command import RemotingCommand
from framework.wire.fields import command_for
from framework.wire.requests.offset import (
    EarliestStoreTimeRequest,
    MaxOffsetRequest,
    MinOffsetRequest,
    QueryOffsetRequest,
    SearchOffsetRequest,
    UpdateOffsetRequest,
)
from framework.wire.requests.pull import COMMIT_OFFSET, SUBSCRIPTION
from tests.broker.broker_lab import BrokerLab, one_way, pull_command


def _lab() -> BrokerLab:
    """With a group: commits of one that nobody made are refused."""
    lab = BrokerLab()
    lab.node.rules.group("g")
    return lab


def _commit(offset: int, topic: str = "t", number: int = 0) -> RemotingCommand:
    return command_for(UpdateOffsetRequest(consumer_group="g", topic=topic, queue_id=number, commit_offset=offset))


def _query(group: str = "g", topic: str = "t", *, zero: bool | None = None) -> RemotingCommand:
    return command_for(QueryOffsetRequest(consumer_group=group, topic=topic, queue_id=0, set_zero_if_not_found=zero))


@pytest.mark.parametrize("zero", [None, True])
def test_a_new_group_is_told_0_while_a_queue_holds_its_first_message(zero: bool | None) -> None:
    """As RocketMQ: a Java consumer with its default setting gets the first messages of a topic."""
    lab = _lab()
    lab.node.rules.for_send("t", "TBW102", 4)
    assert lab.answer(_query(zero=zero)).code == 22, "an empty queue has no first message"
    lab.send()

    assert lab.answer(_query(zero=zero)).fields == {"offset": "0"}
    assert lab.answer(_query(group="never heard of", zero=zero)).fields == {"offset": "0"}
    assert lab.answer(_query(topic="never heard of", zero=zero)).code == 22


def test_who_asks_for_no_zero_is_told_22() -> None:
    lab = _lab()
    lab.send()

    answer = lab.answer(_query(zero=False))
    assert (22, "Not found, do not set to zero, maybe this group boot first") == (answer.code, answer.remark)


def test_a_queue_is_no_longer_young_a_gibibyte_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of whatever topic the bytes are: it is one log."""
    lab = _lab()
    lab.send()
    room = lab.store.writer.place
    monkeypatch.setattr(offsets, "YOUNG_BYTES", 3 * room)
    lab.send(topic="other")
    assert lab.answer(_query()).fields == {"offset": "0"}
    for _ in range(3):
        lab.send(topic="other")

    assert lab.answer(_query()).code == 22


def test_a_queue_that_lost_its_first_message_is_not_young() -> None:
    lab = _lab()
    lab.send()
    lab.send()
    queue = lab.node.queue("t", 0)
    assert queue is not None
    queue.low = 1

    assert lab.answer(_query()).code == 22


def test_commits_are_unconditional() -> None:
    lab = _lab()
    lab.send()
    codes = [lab.answer(_commit(offset)).code for offset in (9, 2)]

    assert codes == [0, 0]
    assert lab.answer(_query()).fields == {"offset": "2"}


def test_a_group_that_nobody_made_commits_nothing_and_is_not_made_by_asking() -> None:
    lab = BrokerLab()
    lab.send()

    assert lab.answer(_commit(1)).code == 26
    assert lab.answer(_query(zero=False)).code == 22
    assert "g" not in lab.node.rules.groups


@pytest.mark.parametrize(
    ("command", "code"),
    [(_commit(1, "absent"), 17), (_commit(1, number=99), 29), (_commit(1, number=-1), 29), (_commit(-1), 29)],
)
def test_commits_that_are_refused(command: RemotingCommand, code: int) -> None:
    lab = _lab()
    lab.send()

    assert lab.answer(command).code == code


def test_a_commit_that_asks_for_an_answer_gets_it_after_the_disk() -> None:
    lab = BrokerLab(is_prompt=False)
    lab.node.rules.group("g")
    lab.node.rules.for_send("t", "TBW102", 4)
    lab.database.commits_inline = False
    lab.ask(_commit(5))
    assert lab.client.answers == []
    lab.workers.work()

    assert lab.client.answers[0].code == 0
    assert _on_disk(lab) == [5]


def test_a_one_way_commit_is_known_at_once_and_on_disk_half_a_second_later() -> None:
    lab = _lab()
    lab.node.rules.for_send("t", "TBW102", 4)
    lab.ask(one_way(_commit(5)))
    assert lab.answer(_query()).fields == {"offset": "5"}
    assert _on_disk(lab) == []

    lab.timers.advance(500)
    assert _on_disk(lab) == [5]


def test_a_one_way_commit_rides_with_the_next_write() -> None:
    lab = _lab()
    lab.send()
    lab.ask(one_way(_commit(5)))
    lab.send()

    assert _on_disk(lab) == [5]


def test_offsets_are_there_after_a_restart() -> None:
    lab = _lab()
    lab.send()
    lab.answer(_commit(7))
    again = BrokerLab(database=open_given(lambda: lab.database.writing))

    assert again.answer(_query()).fields == {"offset": "7"}


def test_the_ends_of_queues() -> None:
    lab = _lab()
    for _ in range(3):
        lab.send()

    assert lab.answer(command_for(MaxOffsetRequest(topic="t", queue_id=0))).fields == {"offset": "3"}
    assert lab.answer(command_for(MinOffsetRequest(topic="t", queue_id=0))).fields == {"offset": "0"}
    earliest = lab.answer(command_for(EarliestStoreTimeRequest(topic="t", queue_id=0)))
    assert earliest.fields == {"timestamp": str(lab.clock.ms)}


def test_the_ends_of_a_topic_nobody_knows_as_observed() -> None:
    lab = _lab()
    commands = [
        command_for(MaxOffsetRequest(topic="absent", queue_id=0)),
        command_for(MinOffsetRequest(topic="absent", queue_id=0)),
        command_for(EarliestStoreTimeRequest(topic="absent", queue_id=0)),
    ]

    assert [lab.answer(command).fields for command in commands] == [
        {"offset": "0"},
        {"offset": "0"},
        {"timestamp": "-1"},
    ]


def test_offsets_by_time() -> None:
    lab = _lab()
    begin = lab.clock.ms
    for _ in range(3):
        lab.send()
        lab.timers.advance(1000)

    def found(time_ms: int, boundary: str) -> str:
        command = command_for(SearchOffsetRequest(topic="t", queue_id=0, timestamp=time_ms, boundary_type=boundary))
        return lab.answer(command).fields["offset"]

    assert [found(begin + 1000, "LOWER"), found(begin + 1500, "LOWER"), found(begin + 9000, "LOWER")] == ["1", "2", "3"]
    assert [found(begin + 1000, "UPPER"), found(begin + 1500, "UPPER"), found(begin + 9000, "UPPER")] == ["1", "1", "2"]


def test_a_message_is_seen_by_its_place() -> None:
    lab = _lab()
    lab.send(body=b"look")
    found = lab.answer(RemotingCommand(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": "0"}))
    absent = lab.answer(RemotingCommand(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": "5"}))

    assert (found.code, b"look" in found.body) == (0, True)
    assert (absent.code, absent.remark) == (1, "can not find message by offset: 5")


def _on_disk(lab: BrokerLab) -> list[int]:
    return [row[0] for row in lab.database.reading.execute("SELECT next_offset FROM offsets").fetchall()]


def _committed(lab: BrokerLab, offset: int) -> RemotingCommand:
    fields = {"consumerGroup": "g", "topic": "t", "queueId": "0", "commitOffset": str(offset)}
    return lab.answer(RemotingCommand(RequestCode.UPDATE_CONSUMER_OFFSET, fields))


@pytest.mark.parametrize("offset", [-1, -(1 << 63), (1 << 40) + 1, 1 << 62, (1 << 63) - 1])
def test_an_offset_that_no_queue_can_have_is_refused_and_changes_nothing(offset: int) -> None:
    lab = _lab()
    lab.send()
    _committed(lab, 1)
    refused = _committed(lab, offset)
    lab.answer(pull_command(0, sys_flag=SUBSCRIPTION | COMMIT_OFFSET, commit_offset=offset))

    assert (29, True) == (refused.code, str(offset) in (refused.remark or ""))
    assert 1 == lab.node.offsets.get("g", "t", 0)


@pytest.mark.parametrize("offset", [0, 7, 1 << 40])
def test_one_above_the_end_is_kept_as_in_rocketmq(offset: int) -> None:
    lab = _lab()
    lab.send()

    assert 0 == _committed(lab, offset).code
    assert offset == lab.node.offsets.get("g", "t", 0)
