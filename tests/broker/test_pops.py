"""Popping: one holder at a time, back when the time is over, and refused by RocketMQ's codes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from framework.broker.store.database import open_folder
from framework.wire.bodies.group import AssignmentQuery, Assignments, RequestMode
from framework.wire.bodies.pop import BatchAck, BatchAckEntry
from framework.wire.codes import RequestCode as Code
from framework.wire.codes import ResponseCode
from framework.wire.command import RemotingCommand
from framework.wire.fields import to_fields
from framework.wire.requests.pop import (
    NotificationRequest,
    PollingInfoRequest,
)
from framework.wire.stored import Record
from tests.broker.broker_lab import BrokerLab, texts
from tests.broker.client_lab import FakeClient
from tests.broker.pop_lab import RETRY, ack, bodies, change, fill, make, pop, pop_command, receipts


def test_a_message_is_popped_once_and_by_each_group() -> None:
    lab = make()
    fill(lab, b"a", b"b")

    assert bodies(pop(lab, max_msg_nums=1)) == [b"a"]
    assert bodies(pop(lab)) == [b"b"]
    assert pop(lab) == []
    assert bodies(pop(lab, consumer_group="other")) == [b"a", b"b"]


def test_an_acknowledged_message_never_comes_back() -> None:
    lab = make()
    fill(lab, b"a")
    ((_, receipt),) = pop(lab)
    assert ack(lab, receipt).code == 0
    assert ack(lab, receipt).code == 0, "asked twice it is done once"
    lab.timers.advance(120_000)

    assert pop(lab) == []
    assert lab.records(RETRY) == []


def test_a_message_comes_back_when_its_time_is_over_with_one_attempt_more() -> None:
    lab = make()
    fill(lab, b"a", properties=texts(UNIQ_KEY="K", TAGS="red"))
    ((first, receipt),) = pop(lab, invisible_time=10_000)
    lab.timers.advance(9_000)
    assert pop(lab) == [], "not before it"
    lab.timers.advance(1_100)
    ((again, retried),) = pop(lab)

    assert (again.body, again.reconsume_times, again.properties["UNIQ_KEY"]) == (b"a", 1, "K")
    assert again.properties["1ST_POP_TIME"] == str(receipt.popped_ms)
    assert again.properties["ORIGIN_GROUP"] == "g"
    assert (retried.retry, retried.queue, retried.offset) == ("1", 0, 0)
    assert first.reconsume_times == 0
    assert ack(lab, retried).code == 0
    lab.timers.advance(120_000)
    assert pop(lab) == []


def test_attempts_are_counted_on() -> None:
    lab = make()
    fill(lab, b"a")
    attempts = []
    for _ in range(4):
        ((record, _),) = pop(lab, invisible_time=1000)
        attempts.append((record.reconsume_times, record.properties.get("1ST_POP_TIME")))
        lab.timers.advance(1100)

    assert [count for count, _ in attempts] == [0, 1, 2, 3]
    assert len({first for _, first in attempts[1:]}) == 1, "the time of the first pop stays"


def test_an_outdated_receipt_changes_nothing() -> None:
    """The former holder's late acknowledgement must not take the message from the new one."""
    lab = make()
    fill(lab, b"a")
    ((_, late),) = pop(lab, invisible_time=1000)
    lab.timers.advance(1100)
    ((_, new),) = pop(lab, invisible_time=5000)

    assert change(lab, late, 60_000).code == ResponseCode.NO_MESSAGE
    assert ack(lab, late).code == 0
    assert change(lab, new._replace(popped_ms=1), 60_000).code == ResponseCode.NO_MESSAGE
    lab.timers.advance(5100)
    assert len(pop(lab)) == 1


def test_a_changed_time_counts_from_now_and_gives_a_new_receipt() -> None:
    lab = make()
    fill(lab, b"a")
    ((_, receipt),) = pop(lab, invisible_time=10_000)
    lab.timers.advance(8_000)
    answer = change(lab, receipt, 10_000)
    assert answer.code == 0
    renewed = receipt.renewed(
        int(answer.fields["popTime"]), int(answer.fields["invisibleTime"]), int(answer.fields["reviveQid"])
    )
    lab.timers.advance(8_000)

    assert pop(lab) == [], "the first receipt's time is over, the second one's is not"
    assert ack(lab, receipt).code == 0
    lab.timers.advance(1_000)
    assert change(lab, renewed, 1_000).code == 0, "the first receipt has acknowledged nothing"
    lab.timers.advance(1_100)
    assert bodies(pop(lab)) == [b"a"]


def test_a_message_is_given_back_by_a_time_of_0() -> None:
    lab = make()
    fill(lab, b"a")
    ((_, receipt),) = pop(lab)
    assert change(lab, receipt, 0).code == 0
    lab.timers.advance(1)

    assert bodies(pop(lab)) == [b"a"]


def test_many_are_acknowledged_at_once_by_their_bits() -> None:
    lab = make()
    fill(lab, *(b"%d" % i for i in range(10)))
    found = pop(lab, invisible_time=1000)
    first = found[0][1]
    bits = sum(1 << receipt.offset for _, receipt in found if receipt.offset not in {3, 8})
    entry = BatchAckEntry(
        group="g", topic="t", retry="0", start_offset=0, queue_id=0, revive_queue_id=0, pop_time=first.popped_ms,
        invisible_time=1000, bits=bits.to_bytes(2, "little"),
    )  # fmt: skip
    body = BatchAck(broker_name="broker-a", acks=(entry,)).encode()
    assert lab.answer(RemotingCommand(Code.BATCH_ACK_MESSAGE, body=body)).code == 0
    lab.timers.advance(1100)

    assert bodies(pop(lab)) == [b"3", b"8"]
    empty = BatchAck(broker_name="broker-a").encode()
    assert lab.answer(RemotingCommand(Code.BATCH_ACK_MESSAGE, body=empty)).code == ResponseCode.NO_MESSAGE


def test_retries_are_acknowledged_at_once_too() -> None:
    lab = make()
    fill(lab, b"a", b"b")
    pop(lab, invisible_time=1000)
    lab.timers.advance(1100)
    found = pop(lab, invisible_time=1000)
    entry = BatchAckEntry(
        group="g", topic="t", retry="1", start_offset=0, queue_id=0, revive_queue_id=0, pop_time=found[0][1].popped_ms,
        invisible_time=1000, bits=b"\x02",
    )  # fmt: skip
    lab.answer(RemotingCommand(Code.BATCH_ACK_MESSAGE, body=BatchAck(broker_name="x", acks=(entry,)).encode()))
    lab.timers.advance(1100)

    assert bodies(pop(lab)) == [b"a"]


def test_all_queues_are_popped_and_one_where_it_is_named() -> None:
    lab = make(3)
    for number in range(3):
        fill(lab, b"%d" % number, queue_id=number)

    assert bodies(pop(lab, queue_id=1)) == [b"1"]
    assert bodies(pop(lab)) == [b"0", b"2"]


def test_a_filter_lets_through_what_it_names_and_the_rest_is_passed() -> None:
    lab = make()
    for tag in ("red", "blue", "red"):
        fill(lab, tag.encode(), properties=texts(TAGS=tag, n="1"))

    assert bodies(pop(lab, exp="red", exp_type="TAG")) == [b"red", b"red"]
    assert bodies(pop(lab, consumer_group="sql", exp="TAGS = 'blue'", exp_type="SQL92")) == [b"blue"]
    assert pop(lab, consumer_group="none", exp="green", exp_type="TAG") == []
    assert lab.node.offsets.get("none", "t", 0) == 3
    wrong = lab.answer(pop_command(lab, exp="a =", exp_type="SQL92"))
    assert wrong.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED


def test_a_new_group_begins_at_the_start_or_with_the_last_message() -> None:
    lab = make()
    fill(lab, b"a", b"b", b"c")

    assert bodies(pop(lab, consumer_group="last", init_mode=1)) == [b"c"]
    assert bodies(pop(lab, consumer_group="first", init_mode=0)) == [b"a", b"b", b"c"]


def test_a_pop_waits_for_a_message_or_its_time() -> None:
    lab = make()
    client, late = FakeClient("c@1"), FakeClient("c@2")
    lab.ask(pop_command(lab, poll_time=5000), client)
    lab.ask(pop_command(lab, poll_time=2000), late)
    assert (client.answers, late.answers) == ([], [])
    info = PollingInfoRequest(consumer_group="g", topic="t", queue_id=-1)
    assert lab.answer(RemotingCommand(Code.POLLING_INFO, to_fields(info))).fields["pollingNum"] == "2"
    fill(lab, b"a")

    assert bodies(receipts(client.answers[0])) == [b"a"], "one arrival wakes one of the group, the first"
    assert late.answers == []
    lab.timers.advance(2001)
    assert [each.code for each in late.answers] == [ResponseCode.POLLING_TIMEOUT]


def test_a_pop_without_a_time_of_birth_waits_by_the_broker_s_clock() -> None:
    """A client whose clock is wrong by hours pops as any other."""
    lab = make()
    client = FakeClient("c@1")
    lab.ask(pop_command(lab, poll_time=2000, born_time=0), client)
    assert client.answers == []
    lab.timers.advance(2001)

    assert [each.code for each in client.answers] == [ResponseCode.POLLING_TIMEOUT]


def test_what_one_leaves_wakes_the_next() -> None:
    lab = make()
    clients = [FakeClient(f"c@{i}") for i in range(3)]
    for client in clients:
        lab.ask(pop_command(lab, poll_time=5000, max_msg_nums=1), client)
    for text in (b"a", b"b", b"c"):  # one write, so one arrival
        lab.store.writer.submit(_append(text))
    lab.timers.turn()

    assert [bodies(receipts(client.answers[0])) for client in clients] == [[b"a"], [b"b"], [b"c"]]


def _append(text: bytes) -> Any:
    from framework.broker.records import encode

    record = encode(Record(topic="t", queue_id=0, body=text, born_host=bytes(8), store_host=bytes(8)))
    return lambda transaction: transaction.append("broker-a", "t", 0, record, 0)


def test_a_message_that_comes_back_wakes_who_waits() -> None:
    lab = make()
    fill(lab, b"a")
    pop(lab, invisible_time=1000)
    client = FakeClient("c@1")
    lab.ask(pop_command(lab, poll_time=5000), client)
    lab.timers.advance(1100)

    assert bodies(receipts(client.answers[0])) == [b"a"]


def test_a_notification_takes_nothing() -> None:
    lab = make()
    header = NotificationRequest(
        consumer_group="g", topic="t", queue_id=-1, poll_time=3000, born_time=lab.clock.now_ms()
    )
    client = FakeClient("c@1")
    lab.ask(RemotingCommand(Code.NOTIFICATION, to_fields(header)), client)
    assert client.answers == []
    fill(lab, b"a")

    assert client.answers[0].fields["hasMsg"] == "true"
    assert bodies(pop(lab)) == [b"a"]
    lab.ask(RemotingCommand(Code.NOTIFICATION, to_fields(header)), client)
    lab.timers.advance(3001)
    assert client.answers[1].fields["hasMsg"] == "false"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"max_msg_nums": 33}, ResponseCode.INVALID_PARAMETER),
        ({"queue_id": 1}, ResponseCode.INVALID_PARAMETER),
        ({"queue_id": -2}, ResponseCode.INVALID_PARAMETER),
        ({"order": True}, ResponseCode.INVALID_PARAMETER),
        ({"invisible_time": 0}, ResponseCode.INVALID_PARAMETER),
        ({"topic": "absent"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"exp": "x", "exp_type": "LUA"}, ResponseCode.SYSTEM_ERROR),
        ({"born_time": 1_700_000_000_000 - 1000}, ResponseCode.POLLING_TIMEOUT),
    ],
)
def test_what_cannot_be_popped_is_refused_by_rocketmq_s_code(changes: dict[str, Any], code: int) -> None:
    lab = make()
    fill(lab, b"a")

    assert lab.answer(pop_command(lab, **changes)).code == code


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"topic": "absent"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"queue_id": 7}, ResponseCode.MESSAGE_ILLEGAL),
        ({"offset": 99}, ResponseCode.NO_MESSAGE),
        ({"extra_info": "0 1 2"}, ResponseCode.SYSTEM_ERROR),
        ({"extra_info": "0 1 2 999 0 broker-a 0 0"}, ResponseCode.INVALID_PARAMETER),
    ],
)
def test_what_names_no_popped_message_is_refused(changes: dict[str, Any], code: int) -> None:
    lab = make()
    fill(lab, b"a")
    ((_, receipt),) = pop(lab)

    assert ack(lab, receipt, **changes).code == code
    assert change(lab, receipt, 1000, **changes).code == code


def mode(lab: BrokerLab, name: str, share: int = 0) -> int:
    body = RequestMode(topic="t", group="g", mode=name, pop_share_queues=share).encode()
    return lab.answer(RemotingCommand(Code.SET_MESSAGE_REQUEST_MODE, body=body)).code


def asked(lab: BrokerLab, client_id: str, topic: str = "t") -> set[tuple[int, str]]:
    query = AssignmentQuery(topic=topic, group="g", client_id=client_id, strategy="AVG")
    found = Assignments.decode(lab.answer(RemotingCommand(Code.QUERY_ASSIGNMENT, body=query.encode())).body).assignments
    return {(each.queue.number, each.mode) for each in found or () if each.queue is not None}


def test_a_group_pops_what_an_administrator_has_it_pop(folder: Path) -> None:
    from framework.broker.filters import Wanted

    def join(lab: BrokerLab) -> None:
        lab.node.rules.group("g")
        for i in range(4):
            lab.node.members.heard(
                FakeClient(), f"c{i}", "g", [Wanted("t", "*")], consume_type="", message_model="CLUSTERING",
                consume_from="", language=0, version=477,
            )  # fmt: skip

    lab = make(8, database=open_folder(folder))
    join(lab)
    assert asked(lab, "c0") == {(0, "PULL"), (1, "PULL")}
    assert mode(lab, "POP") == 0
    assert asked(lab, "c0") == {(-1, "POP")}
    assert mode(lab, "POP", 1) == 0
    assert asked(lab, "c3") == {(6, "POP"), (7, "POP"), (0, "POP"), (1, "POP")}
    assert mode(lab, "SHOVE") == ResponseCode.INVALID_PARAMETER
    lab.store.close()

    lab = make(8, database=open_folder(folder))
    join(lab)
    assert asked(lab, "c1") == {(2, "POP"), (3, "POP"), (4, "POP"), (5, "POP")}
    assert mode(lab, "PULL") == 0
    assert asked(lab, "c0") == {(0, "PULL"), (1, "PULL")}
    lab.store.close()
