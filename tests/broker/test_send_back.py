"""Send-back: each of its checks with its code, the copy it makes, and that a repetition makes none."""

from __future__ import annotations

import pytest

from framework.broker.intercept import Interceptor
from framework.broker.store.topics import StoredGroup, Topic
from framework.model.delay_levels import DELAYS_MS
from framework.model.queue import MessageQueue
from framework.wire.command import RemotingCommand
from framework.wire.fields import command_for
from framework.wire.requests.admin import CloneOffsetsRequest
from framework.wire.stored import Record
from tests.broker.broker_lab import BrokerLab, send_back_command, send_command, texts

KEY = "0A000001000000000000000000000001"


def _sent(**properties: str) -> tuple[BrokerLab, Record]:
    lab = BrokerLab()
    lab.send(body=b"poison", properties=texts(UNIQ_KEY=KEY, TAGS="A", **properties), flag=3)
    return lab, lab.records("t")[0]


def test_the_copy_comes_back_on_the_retry_topic_after_its_delay() -> None:
    lab, record = _sent()
    assert lab.answer(send_back_command(record)).code == 0
    lab.timers.advance(9_999)
    assert lab.records("%RETRY%g") == []

    lab.timers.advance(1)
    (copy,) = lab.records("%RETRY%g")
    assert (copy.body, copy.flag, copy.reconsume_times, copy.born_ms) == (b"poison", 3, 1, record.born_ms)
    assert copy.properties["RETRY_TOPIC"] == "t"
    assert copy.properties["UNIQ_KEY"] == KEY
    assert copy.properties["ORIGIN_MESSAGE_ID"] == "7F00000100002A9F0000000000000000"
    assert copy.properties["TAGS"] == "A"


def test_sixteen_retries_climb_the_ladder_and_then_come_the_dead_letters() -> None:
    """17,140 seconds in all; where it came from and its first id stay what they were."""
    lab, record = _sent()
    begin = lab.clock.ms
    for attempt in range(16):
        assert lab.answer(send_back_command(record)).code == 0
        lab.timers.advance(DELAYS_MS[2 + attempt])
        record = lab.records("%RETRY%g")[attempt]
        assert record.reconsume_times == attempt + 1
    assert (lab.clock.ms - begin) == 17_140_000
    assert lab.answer(send_back_command(record)).code == 0

    assert len(lab.records("%RETRY%g")) == 16
    (dead,) = lab.records("%DLQ%g")
    assert (dead.body, dead.reconsume_times, dead.properties["RETRY_TOPIC"]) == (b"poison", 17, "t")
    assert dead.properties["ORIGIN_MESSAGE_ID"] == "7F00000100002A9F0000000000000000"


@pytest.mark.parametrize(
    ("level", "maximum", "wait_ms"),
    [
        (0, 16, 10_000),
        (1, 16, 1000),
        (5, None, 60_000),
        (18, 16, 7_200_000),
        (99, 16, 7_200_000),
        (-1, 16, 0),
        (3, 0, 0),
    ],
)
def test_the_wished_level_and_what_goes_straight_to_the_dead_letters(
    level: int, maximum: int | None, wait_ms: int
) -> None:
    lab, record = _sent()
    lab.ask(send_back_command(record, level=level, max_reconsume_times=maximum))

    assert lab.client.answers[-1].code == 0
    assert len(lab.records("%DLQ%g")) == (wait_ms == 0)
    lab.timers.advance(wait_ms)
    assert len(lab.records("%RETRY%g")) == (wait_ms > 0)


def test_the_same_send_back_asked_twice_makes_one_copy() -> None:
    """RocketMQ makes two when the first answer is lost."""
    lab, record = _sent()
    codes = [lab.answer(send_back_command(record)).code for _ in range(3)]
    lab.ask(send_back_command(record, "other"))
    lab.timers.advance(60_000)

    assert codes == [0, 0, 0]
    assert (len(lab.records("%RETRY%g")), len(lab.records("%RETRY%other"))) == (1, 1)


def test_a_dead_letter_asked_for_twice_is_one_also_over_a_restart() -> None:
    lab, record = _sent()
    lab.ask(send_back_command(record, level=-1))
    again = BrokerLab(database=lab.database)
    again.ask(send_back_command(record, level=-1))

    assert again.client.answers[-1].code == 0
    assert len(again.records("%DLQ%g")) == 1


def test_a_repetition_is_forgotten_after_an_hour() -> None:
    lab, record = _sent()
    lab.ask(send_back_command(record, level=-1))
    lab.timers.advance(3_600_001)
    lab.ask(send_back_command(record, level=-1))

    assert len(lab.records("%DLQ%g")) == 2


def test_a_group_that_goes_on_where_another_is_may_fail_again_what_it_meets_again() -> None:
    lab, record = _sent()
    for group in ("g", "bystander"):
        lab.ask(send_back_command(record, group, level=-1))
    lab.node.offsets.put("g", "t", 0, 1)
    lab.node.offsets.put("other", "t", 0, 0)

    answer = lab.answer(command_for(CloneOffsetsRequest(src_group="other", dest_group="g", topic="t")))
    for group in ("g", "bystander"):
        lab.ask(send_back_command(record, group, level=-1))

    assert (answer.code, lab.node.offsets.get("g", "t", 0)) == (0, 0)
    assert (len(lab.records("%DLQ%g")), len(lab.records("%DLQ%bystander"))) == (2, 1)


def test_a_wall_clock_set_before_a_restart_lets_no_repetition_through() -> None:
    """Nothing waited for a delay at the restart, so that nobody knows of the step any more."""
    lab, record = _sent()
    lab.ask(send_back_command(record, level=-1))
    again = BrokerLab(database=lab.database, skew_ms=7_200_000)
    again.ask(send_back_command(record, level=-1))

    assert len(again.records("%DLQ%g")) == 1


@pytest.mark.parametrize(
    ("group", "topic", "code"),
    [
        (StoredGroup(name="g", retry_queues=0), None, 16),
        (StoredGroup(name="g"), Topic(name="%RETRY%g", perm=4), 16),
    ],
)
def test_what_is_refused_is_refused_before_anything_is_stored(
    group: StoredGroup, topic: Topic | None, code: int
) -> None:
    """RocketMQ answers a group without retry queues with success, and drops the message."""
    lab, record = _sent()
    lab.node.rules.groups.put("g", group)
    if topic is not None:
        lab.node.rules.topics.put(topic.name, topic)

    assert lab.answer(send_back_command(record)).code == code
    lab.timers.advance(20_000)
    assert lab.records("%RETRY%g") == []


@pytest.mark.parametrize("place", [1, 10_000, -1])
def test_a_place_without_a_message_is_an_error(place: int) -> None:
    lab, record = _sent()
    command = send_back_command(record)
    command.fields["offset"] = str(place)
    answer = lab.answer(command)

    assert (answer.code, answer.remark) == (1, f"look message by offset failed, {place}")


def test_a_name_that_is_no_group_is_refused() -> None:
    lab, record = _sent()

    assert lab.answer(send_back_command(record, "a b")).code == 29


def test_a_producer_cannot_choose_where_a_retry_says_it_came_from() -> None:
    lab, record = _sent(RETRY_TOPIC="secrets", ORIGIN_MESSAGE_ID="forged")
    lab.ask(send_back_command(record, level=1))
    lab.timers.advance(1000)
    (copy,) = lab.records("%RETRY%g")

    assert copy.properties["RETRY_TOPIC"] == "t"
    assert copy.properties["ORIGIN_MESSAGE_ID"] == "7F00000100002A9F0000000000000000"


def test_the_answer_waits_for_the_commit() -> None:
    lab = BrokerLab(is_prompt=False)
    lab.database.commits_inline = False
    lab.ask(send_command(body=b"x"))
    lab.workers.work()
    lab.timers.turn()
    (record,) = lab.records("t")
    lab.ask(send_back_command(record, level=-1))

    assert len(lab.client.answers) == 1
    lab.workers.work()
    assert len(lab.client.answers) == 2


def test_a_group_in_order_turns_plain_sends_to_its_retry_topic_into_dead_letters() -> None:
    lab, _ = _sent()
    lab.node.locks.lock("g", "a", [MessageQueue("t", "broker-a", 0)], lab.clock.monotonic_ms())
    lab.send("%RETRY%g", reconsume_times=1, max_reconsume_times=16)
    assert len(lab.records("%DLQ%g")) == 1

    lab.timers.advance(60_001)
    lab.send("%RETRY%g", reconsume_times=1, max_reconsume_times=16)
    assert len(lab.records("%RETRY%g")) == 1


@pytest.mark.parametrize(
    ("switch", "value", "code"),
    [("brokerPermission", "4", 16), ("autoCreateSubscriptionGroup", "false", 26)],
)
def test_what_an_administrator_has_shut_refuses_send_backs(switch: str, value: str, code: int) -> None:
    """There is one role here, so the check for a broker that is no master has nothing to refuse."""
    lab, record = _sent()
    lab.node.switches.put(switch, value)

    assert lab.answer(send_back_command(record, "nobody-yet")).code == code
    lab.timers.advance(20_000)
    assert [lab.records(topic) for topic in ("%RETRY%nobody-yet", "%DLQ%nobody-yet")] == [[], []]


def test_a_copy_that_no_longer_fits_into_a_record_is_refused_as_rocketmq_refuses_it() -> None:
    """What is added says where it came from. The client then sends the message itself."""
    lab = BrokerLab()
    assert lab.send(properties=texts(UNIQ_KEY=KEY, big="x" * 32_550)).code == 0
    answer = lab.answer(send_back_command(lab.records("t")[0]))

    assert (answer.code, answer.remark) == (1, "PROPERTIES_SIZE_EXCEEDED")


def test_what_would_be_a_hook_of_rocketmq_is_an_interceptor_here() -> None:
    """It answers in the place of the handler, and the handler stores nothing."""
    lab, record = _sent()
    lab.interceptors.add(Interceptor(code=36, answer=RemotingCommand(16, remark="not by this group")))
    first, second = (lab.answer(send_back_command(record, level=-1)) for _ in range(2))

    assert ((first.code, first.remark), second.code) == ((16, "not by this group"), 0)
    assert len(lab.records("%DLQ%g")) == 1


def test_a_namespace_is_a_part_of_the_names() -> None:
    """Clients put `namespace%` before topics and groups, and behind `%RETRY%`; the broker treats them as any others."""
    lab = BrokerLab()
    for namespace in ("one", "two"):
        assert lab.send(f"{namespace}%t", body=namespace.encode()).code == 0
    (record,) = lab.records("one%t")
    assert lab.answer(send_back_command(record, "one%g")).code == 0
    lab.timers.advance(10_000)

    assert [each.body for each in lab.records("two%t")] == [b"two"]
    assert [each.body for each in lab.records("%RETRY%one%g")] == [b"one"]
    assert lab.records("%RETRY%two%g") == []


def test_only_ordered_topics_are_shut_with_the_broker() -> None:
    """As in RocketMQ: a plain send that arrives is stored, one to an `order` topic is refused with 16."""
    lab = BrokerLab()
    lab.node.rules.topics.put("ordered", Topic(name="ordered", is_ordered=True))
    lab.node.switches.put("brokerPermission", "4")

    assert (lab.send("plain").code, lab.send("ordered").code) == (0, 16)
