"""Pulls: the status table of the real broker row by row, holds, filters, and what rides along."""

from __future__ import annotations

from typing import Any

import pytest

from framework.broker.filters import Wanted, tag_hash
from framework.broker.settings import BrokerSettings
from framework.broker.store.topics import StoredGroup, Topic
from framework.wire.command import RemotingCommand
from framework.wire.requests.pull import COMMIT_OFFSET, SUBSCRIPTION, SUSPEND
from framework.wire.stored import decode_records
from tests.broker.broker_lab import BrokerLab, pull_command, send_command, texts
from tests.broker.client_lab import FakeClient


def _filled(count: int, **settings: Any) -> BrokerLab:
    lab = BrokerLab(settings=BrokerSettings(**settings))
    for i in range(count):
        lab.send(body=b"%d" % i, properties=texts(TAGS=f"T{i % 3}"))
    return lab


def _low(lab: BrokerLab, low: int) -> None:
    """As if retention had taken what is below."""
    queue = lab.node.queue("t", 0)
    assert queue is not None
    queue.low = low


def _bodies(answer: RemotingCommand) -> list[bytes]:
    return [record.body for record in decode_records(answer.body)]


def _join(lab: BrokerLab, client: FakeClient, expression: str = "*", version: int = 0, group: str = "g") -> None:
    lab.node.members.heard(
        client, "c", group, [Wanted("t", expression, version=version)], consume_type="", message_model="",
        consume_from="", language=3, version=477,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("offset", "code", "status", "following"),
    [
        (-5, 21, "OFFSET_TOO_SMALL", 2),
        (1, 21, "OFFSET_TOO_SMALL", 2),
        (2, 0, "FOUND", 5),
        (4, 0, "FOUND", 5),
        (5, 19, "OFFSET_OVERFLOW_ONE", 5),
        (6, 21, "OFFSET_OVERFLOW_BADLY", 5),
        (1 << 62, 21, "OFFSET_OVERFLOW_BADLY", 5),
    ],
)
def test_the_status_table_of_a_queue_with_messages(offset: int, code: int, status: str, following: int) -> None:
    lab = _filled(5)
    _low(lab, 2)
    answer = lab.answer(pull_command(offset))

    assert (answer.code, answer.remark) == (code, status)
    assert answer.fields == {
        "suggestWhichBrokerId": "0",
        "nextBeginOffset": str(following),
        "minOffset": "2",
        "maxOffset": "5",
    }


@pytest.mark.parametrize(("offset", "code"), [(0, 19), (7, 21)])
def test_the_status_table_of_a_queue_nobody_wrote_to(offset: int, code: int) -> None:
    lab = _filled(1)
    answer = lab.answer(pull_command(offset, queue_id=3))

    assert (answer.code, answer.remark) == (code, "NO_MESSAGE_IN_QUEUE")
    assert (answer.fields["nextBeginOffset"], answer.fields["maxOffset"]) == ("0", "0")


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"topic": "absent"}, 17),
        ({"topic": "write_only"}, 16),
        ({"group": "shut"}, 16),
        ({"group": "a b"}, 29),
        ({"queue_id": 4}, 29),
        ({"queue_id": -1}, 29),
        ({"sys_flag": 0}, 24),
        ({"expression_type": "SQL92", "subscription": "a >"}, 23),
        ({"expression_type": "CLASS", "subscription": "a > 5"}, 1),
        ({"sys_flag": 12}, 23),
    ],
)
def test_what_is_refused_with_which_code(changes: dict[str, Any], code: int) -> None:
    lab = _filled(1)
    lab.node.rules.topics.put("write_only", Topic(name="write_only", perm=2))
    lab.node.rules.groups.put("shut", StoredGroup(name="shut", may_consume=False))

    assert lab.answer(pull_command(0, **changes)).code == code


@pytest.mark.parametrize(
    ("field", "value"), [("queueId", "x"), ("sysFlag", ""), ("queueOffset", "1x"), ("topic", None)]
)
def test_a_pull_with_a_bad_field_is_refused_by_name(field: str, value: str | None) -> None:
    command = pull_command(0)
    if value is None:
        del command.fields[field]
    else:
        command.fields[field] = value
    answer = _filled(1).answer(command)

    assert answer.code == 1
    assert "PullMessageRequestHeader" in str(answer.remark)


def test_a_batch_ends_at_the_broker_s_own_limits() -> None:
    lab = _filled(100)

    assert len(_bodies(lab.answer(pull_command(0, max_msg_nums=1000)))) == 32
    assert len(_bodies(lab.answer(pull_command(0, max_msg_nums=5)))) == 5
    assert len(_bodies(lab.answer(pull_command(0, max_msg_bytes=1)))) == 1
    assert len(_bodies(_filled(100, pull_bytes_max=1000).answer(pull_command(0)))) < 10


def test_a_tag_filter_gives_what_matches_and_goes_on_behind_it() -> None:
    lab = _filled(9)
    answer = lab.answer(pull_command(0, subscription="T1 || T9"))

    assert (_bodies(answer), answer.fields["nextBeginOffset"]) == ([b"1", b"4", b"7"], "9")


def test_a_filter_that_matches_nothing_is_answered_20_behind_what_was_looked_at() -> None:
    answer = _filled(9).answer(pull_command(2, subscription="T9"))

    assert (answer.code, answer.remark, answer.fields["nextBeginOffset"]) == (20, "NO_MATCHED_MESSAGE", "9")


def test_the_filter_is_the_hash_alone_as_rocketmq_s() -> None:
    """Aa and BB share Java's hash: clients check the text."""
    lab = BrokerLab()
    lab.send(properties=texts(TAGS="Aa"))

    assert tag_hash("Aa") == tag_hash("BB")
    assert lab.answer(pull_command(0, subscription="BB")).code == 0


@pytest.mark.parametrize(("known", "asked", "code"), [(5, 5, 0), (5, 4, 0), (5, 6, 25)])
def test_a_pull_newer_than_the_heartbeat_is_refused_and_an_older_one_served(known: int, asked: int, code: int) -> None:
    lab = _filled(1)
    _join(lab, FakeClient(), version=known)

    assert lab.answer(pull_command(0, sys_flag=0, sub_version=asked)).code == code


def test_pulls_are_served_on_a_connection_without_a_heartbeat_of_its_own() -> None:
    lab = _filled(1)
    _join(lab, FakeClient())

    assert lab.answer(pull_command(0, sys_flag=0), FakeClient()).code == 0


def test_a_topic_that_the_heartbeat_did_not_name_is_refused_with_24() -> None:
    lab = _filled(1)
    _join(lab, FakeClient())
    lab.send("other")

    assert lab.answer(pull_command(0, "other", sys_flag=0)).code == 24


def test_a_pull_at_the_end_waits_for_a_message() -> None:
    lab = _filled(1)
    lab.ask(pull_command(1, sys_flag=SUBSCRIPTION | SUSPEND, suspend_timeout_millis=15_000))
    lab.timers.advance(1000)
    assert len(lab.client.answers) == 1

    lab.ask(send_command(body=b"new"), FakeClient())
    assert _bodies(lab.client.answers[-1]) == [b"new"]


def test_a_pull_from_a_queue_nobody_wrote_to_waits_too() -> None:
    lab = _filled(1)
    lab.ask(pull_command(0, queue_id=3, sys_flag=SUBSCRIPTION | SUSPEND, suspend_timeout_millis=15_000))
    lab.ask(send_command(body=b"new", queue_id=3), FakeClient())

    assert _bodies(lab.client.answers[-1]) == [b"new"]


def test_a_pull_that_waits_is_answered_exactly_at_its_deadline() -> None:
    """RocketMQ answers only with its 5 s tick: 3 s asked were answered after 6.8 s."""
    lab = _filled(1)
    lab.ask(pull_command(1, sys_flag=SUBSCRIPTION | SUSPEND, suspend_timeout_millis=3000))
    lab.timers.advance(2999)
    assert len(lab.client.answers) == 1

    lab.timers.advance(1)
    assert (lab.client.answers[-1].code, lab.client.answers[-1].remark) == (19, "OFFSET_OVERFLOW_ONE")


@pytest.mark.parametrize("asked_ms", [61_000, 3_600_000])
def test_a_pull_may_wait_as_long_as_it_asks(asked_ms: int) -> None:
    lab = _filled(1)
    lab.ask(pull_command(1, sys_flag=SUBSCRIPTION | SUSPEND, suspend_timeout_millis=asked_ms))
    lab.timers.advance(asked_ms - 1)
    assert len(lab.client.answers) == 1

    lab.timers.advance(1)
    assert lab.client.answers[-1].code == 19


def test_a_waiting_pull_sleeps_through_messages_it_does_not_want() -> None:
    lab = _filled(1)
    lab.ask(pull_command(1, subscription="A", sys_flag=SUBSCRIPTION | SUSPEND, suspend_timeout_millis=9000))
    producer = FakeClient()
    lab.ask(send_command(properties=texts(TAGS="B")), producer)
    before = len(lab.client.answers)
    lab.ask(send_command(body=b"mine", properties=texts(TAGS="A")), producer)

    assert before == 1
    assert _bodies(lab.client.answers[-1]) == [b"mine"]


def test_without_the_flag_or_with_no_time_nothing_waits() -> None:
    lab = _filled(1)

    assert lab.answer(pull_command(1, sys_flag=SUBSCRIPTION, suspend_timeout_millis=9000)).code == 19
    assert lab.answer(pull_command(1, sys_flag=SUBSCRIPTION | SUSPEND, suspend_timeout_millis=0)).code == 19


def test_the_offset_that_rides_along_is_committed_once_also_when_the_pull_waits() -> None:
    lab = _filled(5)
    flags = SUBSCRIPTION | SUSPEND | COMMIT_OFFSET
    lab.ask(pull_command(5, sys_flag=flags, commit_offset=3, suspend_timeout_millis=9000))
    assert lab.node.offsets.get("g", "t", 0) == 3

    lab.node.offsets.put("g", "t", 0, 4)
    lab.ask(send_command(), FakeClient())
    assert lab.client.answers[-1].code == 0
    assert lab.node.offsets.get("g", "t", 0) == 4, "a second look must not commit again"


def test_without_the_flag_nothing_is_committed() -> None:
    lab = _filled(5)
    lab.answer(pull_command(0, commit_offset=3))

    assert lab.node.offsets.get("g", "t", 0) is None


def test_a_damaged_message_is_an_error_with_its_name_again_and_again() -> None:
    lab = _filled(5)
    queue = lab.node.queue("t", 0)
    assert queue is not None
    lab.database.writing.execute("UPDATE messages SET checksum = 1 WHERE id = ?", (queue.base + 2,))
    first = lab.answer(pull_command(0))

    assert (_bodies(first), first.fields["nextBeginOffset"]) == ([b"0", b"1"], "2")
    for _ in range(2):
        answer = lab.answer(pull_command(2))
        assert (answer.code, answer.body) == (1, b"")
        assert "message 2 of t@broker-a:0 is damaged" in str(answer.remark)
    assert len(lab.troubles) == 2


def test_pulls_of_a_closed_connection_are_forgotten() -> None:
    lab = _filled(1)
    lab.ask(pull_command(1, sys_flag=SUBSCRIPTION | SUSPEND, suspend_timeout_millis=9000))
    lab.node.gone(lab.client)
    lab.ask(send_command(), FakeClient())

    assert (len(lab.client.answers), len(lab.node.holds)) == (1, 0)
