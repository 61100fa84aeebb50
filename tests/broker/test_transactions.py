"""Transactions: nobody sees a half message, each end happens once, and open ones are asked about, over restarts too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from framework.broker.settings import BrokerSettings
from framework.broker.store.database import open_folder
from framework.model.reserved import GIVEN_UP_TOPIC, HALF_TOPIC
from framework.wire.bodies.heartbeat import Heartbeat, ProducerData
from framework.wire.codes import RequestCode, ResponseCode
from framework.wire.command import ONE_WAY_BIT, RemotingCommand
from framework.wire.fields import from_fields, to_fields
from framework.wire.ids import parse_offset_message_id
from framework.wire.properties import encode
from framework.wire.requests.transaction import (
    COMMIT,
    ROLLBACK,
    UNKNOWN,
    CheckTransactionRequest,
    EndTransactionRequest,
    ResumeHalfMessageRequest,
)
from framework.wire.stored import Record, decode_records
from tests.broker.administration_lab import ask
from tests.broker.broker_lab import BrokerLab
from tests.broker.client_lab import FakeClient


def prepare(lab: BrokerLab, body: bytes = b"paid", **more: str) -> RemotingCommand:
    """As a transaction producer of Java sends it."""
    properties = {"UNIQ_KEY": "KEY", "TRAN_MSG": "true", "PGROUP": "desk", "TAGS": "vip", **more}
    answer = lab.send("orders", body, sys_flag=4, queue_id=2, properties=encode(properties))
    assert answer.code == 0
    return answer


def place_of(prepared: RemotingCommand) -> int:
    place = parse_offset_message_id(prepared.fields["msgId"])
    assert place is not None
    return place.commit_log_offset


def end_command(prepared: RemotingCommand, how: int, **changes: Any) -> RemotingCommand:
    header = EndTransactionRequest(
        **{
            "producer_group": "desk",
            "tran_state_table_offset": int(prepared.fields["queueOffset"]),
            "commit_log_offset": place_of(prepared),
            "commit_or_rollback": how,
            "msg_id": "KEY",
            "topic": "orders",
            **changes,
        }
    )
    return RemotingCommand(RequestCode.END_TRANSACTION, to_fields(header))


def end(lab: BrokerLab, prepared: RemotingCommand, how: int, **changes: Any) -> RemotingCommand:
    return lab.answer(end_command(prepared, how, **changes))


def member(lab: BrokerLab, group: str = "desk", client_id: str = "p@1") -> FakeClient:
    client = FakeClient(client_id)
    beat = Heartbeat(client_id=client_id, producers=(ProducerData(group=group),)).encode()
    assert lab.answer(RemotingCommand(RequestCode.HEART_BEAT, body=beat), client).code == 0
    return client


def texts(records: list[Record]) -> list[bytes]:
    return [record.body for record in records]


def checks(client: FakeClient) -> list[tuple[CheckTransactionRequest, Record]]:
    """What the client was asked, with the messages that came along."""
    asked = [each for each in client.sent if each.code == RequestCode.CHECK_TRANSACTION_STATE]
    assert all(each.flag & ONE_WAY_BIT for each in asked)
    return [(from_fields(CheckTransactionRequest, each.fields), decode_records(each.body)[0]) for each in asked]


def test_a_half_message_is_in_its_own_topic_and_in_no_other() -> None:
    lab = BrokerLab()
    answer = prepare(lab)

    assert answer.fields["queueId"] == "2"
    assert answer.fields["transactionId"] == "KEY"
    assert lab.records("orders", 2) == []
    (half,) = lab.records(HALF_TOPIC)
    assert (half.body, half.sys_flag & 0xC, half.properties["REAL_TOPIC"], half.properties["REAL_QID"]) == (
        b"paid", 0, "orders", "2",
    )  # fmt: skip
    assert half.properties["__transactionId__"] == "KEY"


def test_a_commit_puts_the_message_where_it_was_meant_for() -> None:
    """As RocketMQ stores it: the commit's bits, the half message's place, its properties but where it was for."""
    lab = BrokerLab()
    prepared = prepare(lab)

    assert end(lab, prepared, COMMIT).code == 0
    (record,) = lab.records("orders", 2)
    assert (record.body, record.queue_id, record.sys_flag & 0xC) == (b"paid", 2, 8)
    assert record.prepared_transaction_offset == place_of(prepared)
    assert record.properties["TAGS"] == "vip"
    assert record.properties["TRAN_MSG"] == "true"
    assert record.properties.keys().isdisjoint({"REAL_TOPIC", "REAL_QID"})


def test_a_committed_message_is_found_by_its_keys_and_a_half_one_is_not() -> None:
    lab = BrokerLab()
    prepared = prepare(lab, KEYS="order-7")
    query = RemotingCommand(
        RequestCode.QUERY_MESSAGE,
        {"topic": "orders", "key": "order-7", "maxNum": "8", "beginTimestamp": "0", "endTimestamp": str(2**62)},
    )

    assert lab.answer(query).code == ResponseCode.QUERY_NOT_FOUND
    end(lab, prepared, COMMIT)
    assert lab.answer(query).code == 0


def test_a_rolled_back_message_never_comes() -> None:
    lab = BrokerLab()
    prepared = prepare(lab)
    client = member(lab)
    end(lab, prepared, ROLLBACK)
    lab.timers.advance(3_600_000)

    assert lab.records("orders", 2) == []
    assert checks(client) == []


@pytest.mark.parametrize("how", [COMMIT, ROLLBACK])
def test_the_same_end_again_changes_nothing_and_the_other_is_refused(how: int) -> None:
    lab = BrokerLab()
    prepared = prepare(lab)
    assert [end(lab, prepared, how).code for _ in range(3)] == [0, 0, 0]
    other = end(lab, prepared, ROLLBACK if how == COMMIT else COMMIT)

    assert other.code == ResponseCode.SYSTEM_ERROR
    assert "already" in (other.remark or "")
    assert len(lab.records("orders", 2)) == (1 if how == COMMIT else 0)


@pytest.mark.parametrize(
    ("changes", "remark"),
    [
        ({"producer_group": "other"}, "The producer group wrong"),
        ({"tran_state_table_offset": 7}, "The transaction state table offset wrong"),
        ({"commit_log_offset": 1}, "Find prepared transaction message failed"),
    ],
)
def test_the_end_of_another_transaction_ends_none(changes: dict[str, Any], remark: str) -> None:
    lab = BrokerLab()
    prepared = prepare(lab)
    refused = end(lab, prepared, COMMIT, **changes)

    assert (refused.code, refused.remark) == (1, remark)
    assert lab.records("orders", 2) == []
    assert end(lab, prepared, COMMIT).code == 0


def test_an_unknown_end_leaves_it_to_the_checks() -> None:
    lab = BrokerLab()
    prepared = prepare(lab)
    client = member(lab)
    end(lab, prepared, UNKNOWN)
    lab.timers.advance(6_500)

    ((header, record),) = checks(client)
    assert (header.commit_log_offset, header.tran_state_table_offset) == (place_of(prepared), 0)
    assert (header.topic, header.msg_id, header.transaction_id) == ("orders", "KEY", "KEY")
    assert (record.topic, record.queue_id, record.body) == ("orders", 2, b"paid")
    assert record.properties["TRANSACTION_CHECK_TIMES"] == "1"
    assert end(lab, prepared, COMMIT, from_transaction_check=True).code == 0
    assert texts(lab.records("orders", 2)) == [b"paid"]


def test_checks_come_after_6_s_then_each_30_s_and_15_times_at_most_then_it_is_given_up() -> None:
    lab = BrokerLab()
    prepared = prepare(lab)
    client = member(lab)
    lab.timers.advance(5_900)
    assert checks(client) == []
    lab.timers.advance(200)
    assert len(checks(client)) == 1
    for expected in range(2, 16):
        member_again(lab, client)
        lab.timers.advance(30_000)
        assert len(checks(client)) == expected
    member_again(lab, client)
    lab.timers.advance(60_000)

    assert len(checks(client)) == 15
    (given_up,) = lab.records(GIVEN_UP_TOPIC)
    assert (given_up.body, given_up.properties["REAL_TOPIC"]) == (b"paid", "orders")
    assert lab.records("orders", 2) == []
    assert end(lab, prepared, COMMIT).code == 0, "as in RocketMQ: what is committed at last is not lost"
    assert texts(lab.records("orders", 2)) == [b"paid"]


def member_again(lab: BrokerLab, client: FakeClient) -> None:
    beat = Heartbeat(client_id=client.peer, producers=(ProducerData(group="desk"),)).encode()
    lab.ask(RemotingCommand(RequestCode.HEART_BEAT, body=beat), client)


def test_settings_of_the_running_broker_say_when_and_how_often() -> None:
    lab = BrokerLab()
    text = b"transactionTimeOut=1000\ntransactionCheckInterval=2000\ntransactionCheckMax=2\n"
    assert ask(lab, RequestCode.UPDATE_BROKER_CONFIG, text).code == 0
    prepare(lab)
    client = member(lab)
    lab.timers.advance(1_100)
    assert len(checks(client)) == 1
    lab.timers.advance(60_000)

    assert len(checks(client)) == 2
    assert len(lab.records(GIVEN_UP_TOPIC)) == 1


@pytest.mark.parametrize("text", ["transactionTimeOut=-1", "transactionCheckMax=0", "transactionCheckInterval=soon"])
def test_numbers_that_mean_nothing_are_refused(text: str) -> None:
    refused = ask(BrokerLab(), RequestCode.UPDATE_BROKER_CONFIG, text.encode())

    assert refused.code == ResponseCode.INVALID_PARAMETER
    assert "use a whole number from" in (refused.remark or "")


def test_members_of_the_group_are_asked_in_turn_and_nobody_else() -> None:
    lab = BrokerLab()
    for _ in range(4):
        prepare(lab)
    first, second, stranger = member(lab, client_id="a"), member(lab, client_id="b"), member(lab, "else", "c")
    lab.timers.advance(7_000)

    assert [len(checks(each)) for each in (first, second, stranger)] == [2, 2, 0]


def test_a_producer_s_own_time_is_waited_for_and_what_it_says_later_does_not_count() -> None:
    """CHECK_IMMUNITY_TIME_IN_SECONDS: after it only the answer to a check ends the transaction (604)."""
    lab = BrokerLab()
    prepared = prepare(lab, CHECK_IMMUNITY_TIME_IN_SECONDS="20")
    client = member(lab)
    lab.timers.advance(19_000)
    assert checks(client) == []
    lab.timers.advance(2_500)

    assert len(checks(client)) == 1
    assert end(lab, prepared, COMMIT).code == ResponseCode.ILLEGAL_OPERATION
    assert end(lab, prepared, COMMIT, from_transaction_check=True).code == 0


def test_a_restart_keeps_open_transactions_and_how_others_ended(tmp_path: Path) -> None:
    lab = BrokerLab(database=open_folder(tmp_path / "data"))
    ended, opened = prepare(lab, b"ended"), prepare(lab, b"open")
    end(lab, ended, COMMIT)
    lab.store.close()

    again = BrokerLab(database=open_folder(tmp_path / "data"))
    client = member(again)
    assert end(again, ended, COMMIT).code == 0
    again.timers.advance(7_000)
    assert [record.body for _, record in checks(client)] == [b"open"]
    assert end(again, opened, COMMIT, from_transaction_check=True).code == 0
    assert texts(again.records("orders", 2)) == [b"ended", b"open"]
    again.store.close()


def test_a_delay_begins_with_the_commit() -> None:
    lab = BrokerLab()
    prepared = prepare(lab, DELAY="1")
    lab.timers.advance(5_000)
    end(lab, prepared, COMMIT)
    assert lab.records("orders", 2) == []
    lab.timers.advance(1_500)

    assert texts(lab.records("orders", 2)) == [b"paid"]


def test_a_half_message_outlives_the_age_of_messages_until_it_is_given_up() -> None:
    lab = BrokerLab(settings=BrokerSettings(kept_ms=60_000))
    ask(lab, RequestCode.UPDATE_BROKER_CONFIG, b"transactionTimeOut=80000\n")
    prepared = prepare(lab)
    lab.timers.advance(70_000)
    lab.retention.clean()
    lab.timers.turn()

    assert len(lab.records(HALF_TOPIC)) == 1
    lab.timers.advance(11_000)
    assert len(lab.records(GIVEN_UP_TOPIC)) == 1
    assert end(lab, prepared, COMMIT).code == 0


def test_one_that_was_given_up_may_be_ended_for_as_long_as_messages_are_kept() -> None:
    """How others ended is forgotten after an hour."""
    lab = BrokerLab()
    ask(lab, RequestCode.UPDATE_BROKER_CONFIG, b"transactionCheckMax=1\n")
    prepared, ended = prepare(lab), prepare(lab, b"ended")
    end(lab, ended, ROLLBACK)
    lab.timers.advance(60_000)
    assert len(lab.records(GIVEN_UP_TOPIC)) == 1
    lab.timers.advance(10 * 3_600_000)
    prepare(lab, b"one that is due, so that the broker looks")
    lab.timers.advance(60_000)

    assert end(lab, ended, ROLLBACK).code == 1
    assert end(lab, prepared, COMMIT).code == 0
    assert texts(lab.records("orders", 2)) == [b"paid"]


def test_one_that_was_given_up_is_asked_about_anew_where_an_administrator_wishes_so() -> None:
    lab = BrokerLab()
    ask(lab, RequestCode.UPDATE_BROKER_CONFIG, b"transactionCheckMax=1\n")
    prepare(lab)
    lab.timers.advance(60_000)
    (given_up,) = lab.records(GIVEN_UP_TOPIC)
    client = member(lab)
    place = given_up.commit_log_offset
    header = ResumeHalfMessageRequest(topic=GIVEN_UP_TOPIC, msg_id=f"7F00000100002A9F{place:016X}")

    assert lab.answer(RemotingCommand(RequestCode.RESUME_CHECK_HALF_MESSAGE, to_fields(header))).code == 0
    lab.timers.advance(7_000)
    ((asked, _),) = checks(client)
    answer = end_of(asked, COMMIT)
    assert lab.answer(answer).code == 0
    assert texts(lab.records("orders", 2)) == [b"paid"]


def end_of(asked: CheckTransactionRequest, how: int) -> RemotingCommand:
    """What a member answers to a check."""
    header = EndTransactionRequest(
        producer_group="desk",
        tran_state_table_offset=asked.tran_state_table_offset,
        commit_log_offset=asked.commit_log_offset,
        commit_or_rollback=how,
        msg_id="KEY",
        from_transaction_check=True,
    )
    return RemotingCommand(RequestCode.END_TRANSACTION, to_fields(header))


def resume(lab: BrokerLab, message_id: str | None) -> RemotingCommand:
    header = ResumeHalfMessageRequest(topic=HALF_TOPIC, msg_id=message_id)
    return lab.answer(RemotingCommand(RequestCode.RESUME_CHECK_HALF_MESSAGE, to_fields(header)))


def test_of_an_open_transaction_the_questions_are_counted_anew() -> None:
    """It is given up that many later, and no second half message stands beside it."""
    lab = BrokerLab()
    ask(lab, RequestCode.UPDATE_BROKER_CONFIG, b"transactionCheckMax=3\n")
    prepared = prepare(lab)
    client = member(lab)
    lab.timers.advance(6_000 + 30_000 + 1_000)
    assert len(checks(client)) == 2
    assert resume(lab, prepared.fields["msgId"]).code == 0
    for _ in range(5):
        member_again(lab, client)
        lab.timers.advance(30_000)

    assert len(checks(client)) == 2 + 3
    assert len(lab.records(HALF_TOPIC)) == 1
    assert len(lab.records(GIVEN_UP_TOPIC)) == 1


def given_up(lab: BrokerLab) -> str:
    """A transaction that nobody answered for; the id under which an administrator finds it."""
    ask(lab, RequestCode.UPDATE_BROKER_CONFIG, b"transactionCheckMax=1\n")
    lab.timers.advance(60_000)
    (kept,) = lab.records(GIVEN_UP_TOPIC)
    return f"7F00000100002A9F{kept.commit_log_offset:016X}"


def test_one_that_was_given_up_is_opened_again_once_however_often_that_is_asked_for() -> None:
    """RocketMQ makes another half message each time, and each is committed."""
    lab = BrokerLab()
    prepared = prepare(lab)
    kept = given_up(lab)
    client = member(lab)
    assert [resume(lab, each).code for each in (kept, kept, prepared.fields["msgId"])] == [0, 0, 0]
    lab.timers.advance(7_000)
    ((asked, _),) = checks(client)
    assert lab.answer(end_of(asked, COMMIT)).code == 0

    assert len(lab.records(HALF_TOPIC)) == 1
    assert texts(lab.records("orders", 2)) == [b"paid"]


@pytest.mark.parametrize("how", [COMMIT, ROLLBACK])
def test_one_that_has_ended_is_not_opened_again(how: int) -> None:
    """The answer to a check may have come before the wish: RocketMQ delivers the message a second time."""
    lab = BrokerLab()
    prepared = prepare(lab)
    kept = given_up(lab)
    assert end(lab, prepared, how).code == 0, "an end is obeyed after it was given up"
    answers = [resume(lab, each) for each in (kept, prepared.fields["msgId"])]
    client = member(lab)
    lab.timers.advance(40_000)

    refused = (1, "the transaction has ended already: nothing is asked about it")
    assert [(answer.code, answer.remark) for answer in answers] == [refused] * 2
    assert checks(client) == []


def test_a_delivered_one_is_not_opened_again_when_its_end_is_forgotten() -> None:
    lab = BrokerLab()
    prepared = prepare(lab)
    kept = given_up(lab)
    assert end(lab, prepared, COMMIT).code == 0
    lab.timers.advance(3_700_000)
    prepare(lab, UNIQ_KEY="OTHER")
    lab.timers.advance(10_000)
    assert end(lab, prepared, COMMIT).code == 1, "its end is forgotten"

    assert [resume(lab, each).code for each in (kept, prepared.fields["msgId"])] == [1, 1]
    assert texts(lab.records("orders", 2)) == [b"paid"]


@pytest.mark.parametrize("message_id", [None, "", "no id", "7F00000100002A9F", "7F00000100002A9F" + "0" * 15 + "1"])
def test_an_id_that_names_no_half_message_cannot_be_resumed(message_id: str | None) -> None:
    lab = BrokerLab()
    prepare(lab)
    answer = resume(lab, message_id)

    assert (answer.code, answer.remark) == (1, f"no half message has the offset id {message_id or ''!r}")


def test_a_message_of_another_topic_cannot_be_resumed() -> None:
    lab = BrokerLab()
    stored = lab.send("orders", b"whole")

    assert resume(lab, stored.fields["msgId"]).code == 1


def test_a_half_message_without_a_producer_group_is_refused() -> None:
    """Nobody could end it."""
    lab = BrokerLab()

    assert lab.send("orders", b"x", properties=encode({"TRAN_MSG": "true"})).code == ResponseCode.MESSAGE_ILLEGAL
    assert lab.records(HALF_TOPIC) == []
