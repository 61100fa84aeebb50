"""Sends: every check with its code, what is stored beside the body, batches, and delay."""

from __future__ import annotations

from struct import pack
from typing import Any

import pytest

from framework.broker.sending import ANSWER_EXTRAS
from framework.broker.settings import BrokerSettings
from framework.broker.store.topics import Topic
from framework.model.message import DELAY_LEVEL, TAGS, UNIQUE_KEY
from framework.model.reserved import SCHEDULE_TOPIC
from framework.wire.codes import RequestCode
from framework.wire.ids import parse_offset_message_id
from tests.broker.administration_lab import ask
from tests.broker.broker_lab import BrokerLab, one_way, pull_command, send_command, texts
from tests.wire import batches


def test_a_send_is_answered_with_its_place_and_never_without_fields() -> None:
    lab = BrokerLab()
    lab.send(body=b"first")
    answer = lab.send(body=b"second", properties=texts(UNIQ_KEY="K1"))
    record = lab.records("t")[1]

    assert answer.code == 0
    assert answer.fields == {
        "msgId": answer.fields["msgId"],
        "queueId": "0",
        "queueOffset": "1",
        "transactionId": "K1",
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
    }
    place = parse_offset_message_id(answer.fields["msgId"])
    assert place is not None
    assert (place.address, place.port, place.commit_log_offset) == ("127.0.0.1", 10911, record.commit_log_offset)


def test_what_the_broker_adds_to_a_message() -> None:
    lab = BrokerLab()
    lab.send(body=b"x", properties=texts(TAGS="A", POP_CK="theirs"), flag=7, reconsume_times=0)
    (record,) = lab.records("t")

    assert record.properties[TAGS] == "A"
    assert "POP_CK" not in record.properties
    assert len(record.properties[UNIQUE_KEY]) == 32
    assert [record.properties[name] for name in ("MSG_REGION", "TRACE_ON", "CLUSTER")] == [
        "DefaultRegion",
        "true",
        "DefaultCluster",
    ]
    assert (record.flag, record.born_ms, record.stored_ms) == (7, 1_600_000_000_000, lab.clock.ms)
    assert record.born_host.hex() == "7f0000010000c350"
    assert record.store_host.hex() == "7f00000100002a9f"


def test_an_unknown_topic_is_made_after_the_default_topic() -> None:
    lab = BrokerLab()
    lab.send("new", default_topic_queue_nums=4)
    lab.send("many", default_topic_queue_nums=100)
    topics = lab.node.rules.topics

    assert topics.get("new") == Topic(name="new", read_queues=4, write_queues=4, perm=6)
    assert topics.get("many") == Topic(name="many", read_queues=8, write_queues=8, perm=6)


def test_topics_made_by_sends_are_there_after_a_restart() -> None:
    lab = BrokerLab()
    lab.send("new")
    again = BrokerLab(database=lab.database)

    assert again.node.rules.topics.get("new") == Topic(name="new", read_queues=4, write_queues=4, perm=6)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"topic": "a b"}, 29),
        ({"topic": " "}, 29),
        ({"topic": "x" * 128}, 29),
        ({"topic": SCHEDULE_TOPIC}, 16),
        ({"topic": "RMQ_SYS_TRANS_HALF_TOPIC"}, 16),
        ({"queue_id": 99}, 29),
        ({"queue_id": 4}, 29),
        ({"body": b""}, 1),
        ({"body": bytes(4 * 1024 * 1024 + 1)}, 13),
        ({"topic": "absent", "default_topic": "nothing"}, 17),
        ({"topic": "absent", "default_topic": "SELF_TEST_TOPIC"}, 17),
        ({"properties": texts(A="x" * 32_768)}, 13),
        ({"properties": texts(A="x" * 32_700)}, 13),
        ({"topic": "read_only"}, 16),
    ],
)
def test_what_is_refused_with_which_code(changes: dict[str, Any], code: int) -> None:
    """As observed on 5.5.0; failed sends carry the two extra fields as well."""
    lab = BrokerLab()
    lab.node.rules.topics.put("read_only", Topic(name="read_only", perm=4))
    answer = lab.send(**changes)

    assert answer.code == code
    assert answer.fields == {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
    assert answer.remark


@pytest.mark.parametrize(
    "changes",
    [
        {"properties": texts(TRAN_MSG="true", PGROUP="p")},
        {"properties": texts(TRAN_MSG="True", PGROUP="p"), "reconsume_times": 1},
        {"sys_flag": 4},
        {"sys_flag": 4, "batch": True},
    ],
)
def test_half_messages_are_refused_where_a_switch_says_so(changes: dict[str, Any]) -> None:
    """As a transaction producer of Java sends them; the words are those of rejectTransactionMessage."""
    lab = BrokerLab()
    ask(lab, RequestCode.UPDATE_BROKER_CONFIG, b"rejectTransactionMessage=true\n")
    body = batches.encode([batches.BatchedMessage(b"half")]) if "batch" in changes else b"half"
    answer = lab.send(body=body, **changes)

    assert (answer.code, answer.remark) == (
        16,
        "the broker[127.0.0.1:10911] sending transaction message is forbidden",
    )
    assert answer.fields == ANSWER_EXTRAS
    assert lab.records("t") == []


def test_a_half_message_in_a_batch_refuses_the_whole_batch() -> None:
    lab = BrokerLab()
    body = batches.encode([batches.BatchedMessage(b"whole"), batches.BatchedMessage(b"half", {"TRAN_MSG": "true"})])

    assert lab.send(body=body, batch=True).code == 16
    assert lab.records("t") == []


@pytest.mark.parametrize(
    "changes",
    [
        {"sys_flag": 8},
        {"properties": texts(TRAN_MSG="false")},
        {"topic": "%RETRY%g", "properties": texts(TRAN_MSG="true"), "reconsume_times": 1},
    ],
)
def test_what_is_no_half_message_is_stored(changes: dict[str, Any]) -> None:
    lab = BrokerLab()

    assert lab.send(**changes).code == 0
    (record,) = lab.records(changes.get("topic", "t"))
    assert record.sys_flag & 0xC == 0


def test_a_missing_field_is_named() -> None:
    lab = BrokerLab()
    command = send_command()
    del command.fields["e"]
    answer = lab.answer(command)

    assert (answer.code, answer.remark) == (1, "SendRequestV2: field e is missing")


def test_a_negative_queue_number_lets_the_broker_choose() -> None:
    assert BrokerLab().send(queue_id=-1).fields["queueId"] == "0"


def test_a_long_retry_topic_is_stored_in_the_second_layout() -> None:
    lab = BrokerLab()
    group = "g" * 120
    lab.send("%RETRY%" + group)

    assert lab.records("%RETRY%" + group)[0].topic == "%RETRY%" + group


def test_a_one_way_send_is_stored_and_not_answered() -> None:
    lab = BrokerLab()
    lab.ask(one_way(send_command()))

    assert (len(lab.records("t")), lab.client.answers) == (1, [])


def test_the_topic_quota_is_a_code() -> None:
    lab = BrokerLab(settings=BrokerSettings(topics_max=2))
    codes = [lab.send(topic).code for topic in ("a", "b", "c", "a", "%RETRY%g")]

    assert codes == [0, 0, 17, 0, 0]


def test_a_batch_is_taken_apart_into_consecutive_offsets() -> None:
    lab = BrokerLab()
    lab.send()
    parts = [batches.BatchedMessage(b"%d" % i, {UNIQUE_KEY: f"U{i}", TAGS: f"T{i}"}, flag=i) for i in range(3)]
    command = send_command(body=batches.encode(parts), batch=True, properties=texts(WAIT="true", UNIQ_KEY="outer"))
    command.code = RequestCode.SEND_BATCH_MESSAGE
    answer = lab.answer(command)
    records = lab.records("t")[1:]

    assert (answer.code, answer.fields["queueOffset"], answer.fields["msgId"].count(",")) == (0, "1", 2)
    assert [(record.body, record.flag, record.queue_offset) for record in records] == [
        (b"0", 0, 1),
        (b"1", 1, 2),
        (b"2", 2, 3),
    ]
    assert [record.properties[UNIQUE_KEY] for record in records] == ["U0", "U1", "U2"]
    assert all("CLUSTER" not in record.properties for record in records), "as RocketMQ stores the parts of a batch"


@pytest.mark.parametrize(
    ("topic", "body", "code"),
    [
        ("%RETRY%g", batches.encode([batches.BatchedMessage(b"x")]), 13),
        ("t", b"no batch", 1),
        ("t", batches.encode([batches.BatchedMessage(b"")]), 1),
    ],
)
def test_batches_that_are_refused_store_nothing(topic: str, body: bytes, code: int) -> None:
    lab = BrokerLab()

    assert lab.send(topic, body, batch=True).code == code
    assert lab.records(topic) == []


def test_a_delayed_message_stays_in_the_schedule_until_it_is_due() -> None:
    lab = BrokerLab()
    answer = lab.send(body=b"later", queue_id=2, properties=texts(DELAY="2", TAGS="A"))

    assert (answer.code, answer.fields["queueOffset"], answer.fields["queueId"]) == (0, "0", "2")
    assert lab.records(SCHEDULE_TOPIC, 1)[0].body == b"later"
    lab.timers.advance(4999)
    assert lab.records("t", 2) == []

    lab.timers.advance(1)
    (record,) = lab.records("t", 2)
    assert (record.topic, record.queue_id, record.body, record.queue_offset) == ("t", 2, b"later", 0)
    assert (record.properties["REAL_TOPIC"], record.properties["REAL_QID"], record.properties[DELAY_LEVEL]) == (
        "t",
        "2",
        "2",
    )


def test_a_level_above_the_ladder_is_its_last_and_no_number_is_no_delay() -> None:
    lab = BrokerLab()
    lab.send(properties=texts(DELAY="99"))
    lab.send(properties=texts(DELAY="soon"))

    assert len(lab.records(SCHEDULE_TOPIC, 17)) == 1
    assert len(lab.records("t")) == 1


@pytest.mark.parametrize(
    ("attempt", "maximum", "dead"), [(16, 16, False), (17, 16, True), (17, None, True), (3, 2, True)]
)
def test_a_plain_send_to_a_retry_topic_past_the_maximum_is_a_dead_letter(
    attempt: int, maximum: int | None, dead: bool
) -> None:
    lab = BrokerLab()
    lab.send("%RETRY%g", reconsume_times=attempt, max_reconsume_times=maximum)

    assert (len(lab.records("%RETRY%g")), len(lab.records("%DLQ%g"))) == ((0, 1) if dead else (1, 0))


def test_nothing_is_answered_before_the_commit_and_14_where_it_fails() -> None:
    lab = BrokerLab(is_prompt=False)
    lab.database.commits_inline = False
    lab.ask(send_command())
    assert lab.client.answers == []
    lab.workers.work()
    lab.timers.turn()
    assert lab.client.answers[0].code == 0

    lab.database.writing.execute("PRAGMA query_only = ON")
    lab.ask(send_command())
    lab.workers.work()

    assert (lab.client.answers[1].code, "readonly" in str(lab.client.answers[1].remark)) == (14, True)
    assert lab.client.answers[1].fields["TRACE_ON"] == "true"


def test_a_pull_gives_what_was_sent() -> None:
    lab = BrokerLab()
    for i in range(3):
        lab.send(body=b"%d" % i)
    answer = lab.answer(pull_command(1))

    assert (answer.code, answer.remark) == (0, "FOUND")
    assert answer.fields == {"suggestWhichBrokerId": "0", "nextBeginOffset": "3", "minOffset": "0", "maxOffset": "3"}


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("UNIQ_KEY\x01k\x02A\x01x\x02", {"A": "x"}),
        ("UNIQ_KEY\x01k\x02A\x01x", {"A": "x"}),  # as newer clients end it
        ("UNIQ_KEY\x01k\x02A\x01x\x02A\x01y\x02", {"A": "y"}),
        ("UNIQ_KEY\x01k\x02A\x01\x02B\x01x\x02", {"B": "x"}),
        ("UNIQ_KEY\x01k\x02A\x01x\x01y\x02", None),
        ("UNIQ_KEY\x01k\x02MSG_REGION\x01far\x02CLUSTER\x01theirs\x02", {}),
        ("UNIQ_KEY\x01k\x02POP_CK\x01forged\x02A\x01x\x02", {"A": "x"}),
        ("A\x01\x02B\x01x\x02", {"B": "x"}),  # one pair dropped, one made here: as many as there were
    ],
)
@pytest.mark.parametrize("is_batch", [False, True])
def test_properties_are_stored_as_they_were_meant(text: str, stored: dict[str, str] | None, is_batch: bool) -> None:
    lab = BrokerLab()
    if is_batch:
        part = pack(">iiiii", 20 + 1 + 2 + len(text), 0, 0, 0, 1) + b"b" + pack(">h", len(text)) + text.encode()
        answer = lab.send(body=part, batch=True)
    else:
        answer = lab.send(properties=text)

    if stored is None:
        assert (answer.code, lab.records("t")) == (13, [])
        return
    (record,) = lab.records("t")
    properties = dict(record.properties)
    assert properties.pop(UNIQUE_KEY) == ("k" if "UNIQ_KEY" in text else answer.fields["transactionId"])
    if is_batch:
        assert properties == {**stored, **({"MSG_REGION": "far", "CLUSTER": "theirs"} if "far" in text else {})}
    else:
        assert properties == {**stored, **ANSWER_EXTRAS, "CLUSTER": "DefaultCluster"}
