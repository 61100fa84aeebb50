"""When a send-back is a repetition, and when a group met the message again and is owed another copy."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from framework.wire.codes import RequestCode
from framework.wire.command import RemotingCommand
from framework.wire.stored import Record
from tests.broker.broker_lab import BrokerLab, one_way, pull_command, send_back_command

LEVEL_MS = 10_000  # the first retry's


def commit(offset: int, group: str = "g", topic: str = "t") -> RemotingCommand:
    fields = {"consumerGroup": group, "topic": topic, "queueId": "0", "commitOffset": str(offset)}
    return RemotingCommand(RequestCode.UPDATE_CONSUMER_OFFSET, fields)


def lab_with(messages: int) -> tuple[BrokerLab, list[Record]]:
    lab = BrokerLab()
    for i in range(messages):
        lab.send(body=b"%d" % i)
    lab.node.rules.group("g")
    return lab, lab.records("t")


def failed(lab: BrokerLab, record: Record, group: str = "g") -> None:
    assert lab.answer(send_back_command(record, group)).code == 0


def by_commit(lab: BrokerLab, offset: int) -> None:
    assert lab.answer(commit(offset)).code == 0


def by_one_way(lab: BrokerLab, offset: int) -> None:
    lab.ask(one_way(commit(offset)))


def by_pull(lab: BrokerLab, offset: int) -> None:
    lab.answer(pull_command(0, sys_flag=5, commit_offset=offset))


@pytest.mark.parametrize("rewind", [by_commit, by_one_way, by_pull])
def test_a_group_that_a_commit_sends_back_loses_no_retry(rewind: Callable[[BrokerLab, int], None]) -> None:
    """Its messages failed, were retried and passed; what fails again after the rewind is retried again."""
    lab, records = lab_with(4)
    for record in records[:3]:
        failed(lab, record)
    lab.answer(commit(4))
    lab.timers.advance(LEVEL_MS)
    assert 3 == len(lab.records("%RETRY%g"))

    rewind(lab, 1)
    for record in records[:3]:
        failed(lab, record)
    lab.timers.advance(LEVEL_MS)

    copies = [record.body for record in lab.records("%RETRY%g")]
    assert [b"0", b"1", b"2", b"1", b"2"] == copies, "message 0 stands below what the group goes on from"


def test_a_repetition_after_a_rewind_is_one_as_well() -> None:
    lab, (record,) = lab_with(1)
    failed(lab, record)
    lab.answer(commit(1))
    lab.timers.advance(LEVEL_MS)
    lab.answer(commit(0))
    for _ in range(3):
        failed(lab, record)
    lab.timers.advance(2 * LEVEL_MS)

    assert 2 == len(lab.records("%RETRY%g"))


def test_a_later_attempt_is_known_by_its_own_queue() -> None:
    """The retry queue's rewind: the copy failed, its own copy came, and the group goes back to it."""
    lab, (record,) = lab_with(1)
    failed(lab, record)
    lab.timers.advance(LEVEL_MS)
    (copy,) = lab.records("%RETRY%g")
    failed(lab, copy)
    lab.answer(commit(1, topic="%RETRY%g"))
    lab.timers.advance(60_000)
    lab.answer(commit(0, topic="%RETRY%g"))
    failed(lab, copy)
    failed(lab, record)
    lab.timers.advance(60_000)

    assert [1, 2, 2] == [each.reconsume_times for each in lab.records("%RETRY%g")]


def test_a_late_commit_of_a_former_owner_makes_no_second_copy_while_the_first_waits() -> None:
    """Two owned the queue for a moment: one's commit passed the message, the other's falls behind it and fails it."""
    lab, records = lab_with(8)
    failed(lab, records[6])
    lab.answer(commit(8))
    lab.answer(commit(5))
    failed(lab, records[6])
    lab.timers.advance(2 * LEVEL_MS)

    assert 1 == len(lab.records("%RETRY%g"))


def test_an_offset_that_rises_or_stays_below_forgets_nothing() -> None:
    """As when a broker lost power with commits that nobody had waited for: the queue is taken from further back."""
    lab, records = lab_with(8)
    lab.answer(commit(3))
    failed(lab, records[5])
    lab.ask(one_way(commit(8)))
    lab.timers.advance(100)
    again = BrokerLab(database=lab.database)
    again.node.offsets.table.put(next(iter(again.node.offsets.table.keys())), 3)
    again.timers.advance(2 * LEVEL_MS)
    for offset in (4, 5):
        again.answer(commit(offset))
    failed(again, records[5])
    again.answer(commit(6))
    again.timers.advance(2 * LEVEL_MS)

    assert 1 == len(again.records("%RETRY%g"))


@pytest.mark.parametrize("damage", ["is_rewound = 0", "due_ms = due_ms + 1099511627776", "message = 1, is_rewound = 0"])
def test_a_mark_that_is_damaged_costs_a_copy_and_no_retry(damage: str) -> None:
    """As when it forgets that the group went back since, or takes the copy for one that is still to come."""
    lab, (record,) = lab_with(1)
    failed(lab, record)
    lab.answer(commit(1))
    lab.timers.advance(LEVEL_MS)
    lab.answer(commit(0))
    lab.database.writing.execute(f"UPDATE sent_back SET {damage}")
    failed(lab, record)
    lab.timers.advance(LEVEL_MS)

    assert 2 == len(lab.records("%RETRY%g"))


def test_a_mark_that_came_to_name_another_message_takes_no_retry_from_it() -> None:
    lab, (first, second) = lab_with(2)
    failed(lab, first)
    failed(lab, second)
    database = lab.database.writing
    (origin,) = database.execute("SELECT origin FROM sent_back ORDER BY message DESC LIMIT 1").fetchone()
    database.execute("DELETE FROM sent_back WHERE origin = ?", (origin,))
    database.execute("UPDATE sent_back SET origin = ?", (origin,))
    failed(lab, second)
    lab.timers.advance(LEVEL_MS)

    assert [b"0", b"1", b"1"] == [record.body for record in lab.records("%RETRY%g")]


def test_others_marks_stay() -> None:
    lab, (record,) = lab_with(1)
    for group in ("g", "bystander"):
        failed(lab, record, group)
    lab.answer(commit(1))
    lab.answer(commit(1, "bystander"))
    lab.timers.advance(LEVEL_MS)
    lab.answer(commit(0))
    for group in ("g", "bystander"):
        failed(lab, record, group)
    lab.timers.advance(LEVEL_MS)

    assert (2, 1) == (len(lab.records("%RETRY%g")), len(lab.records("%RETRY%bystander")))


def test_a_rewind_reaches_the_disk_with_the_offset_it_is_about() -> None:
    """Also where the first try to write it fails: both are written with the next one."""
    lab, (record,) = lab_with(1)
    failed(lab, record)
    lab.answer(commit(1))
    lab.timers.advance(LEVEL_MS)
    lab.database.writing.execute("PRAGMA query_only = ON")
    assert lab.answer(commit(0)).code != 0
    lab.database.writing.execute("PRAGMA query_only = OFF")
    lab.send("other")

    again = BrokerLab(database=lab.database)
    assert 0 == again.node.offsets.get("g", "t", 0)
    again.timers.advance(LEVEL_MS)  # its clock begins anew; the copy came at this time
    failed(again, record)
    again.timers.advance(LEVEL_MS)
    assert 2 == len(again.records("%RETRY%g"))
