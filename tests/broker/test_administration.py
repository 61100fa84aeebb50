"""What administrators change and read, by the requests themselves: topics, groups, switches, routes, values."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from framework.broker.store import dropped
from framework.broker.store.database import open_folder
from framework.model.reserved import SCHEDULE_TOPIC
from framework.wire import dialect
from framework.wire.bodies.config import GroupConfig, GroupConfigList, KeyValues, TopicConfigTable
from framework.wire.bodies.progress import ConsumeStats, ConsumeTimeSpan, TopicStats
from framework.wire.bodies.route import TopicRoute
from framework.wire.codes import RequestCode, ResponseCode
from framework.wire.command import RemotingCommand
from framework.wire.fields import to_fields
from framework.wire.requests.admin import UpdateTopicRequest
from framework.wire.requests.query import QueryMessageRequest
from framework.wire.stored import decode_records
from tests.broker.broker_lab import BrokerLab, pull_command, send_back_command, send_command, texts

GROUP = "readers"


def ask(lab: BrokerLab, code: int, body: bytes = b"", /, **fields: str) -> RemotingCommand:
    return lab.answer(RemotingCommand(code, fields, body))


def make_topic(lab: BrokerLab, name: str = "t", *, queues: int = 1, perm: int = 6, order: bool = False) -> None:
    header = UpdateTopicRequest(
        topic=name, default_topic="TBW102", read_queue_nums=queues, write_queue_nums=queues, perm=perm, order=order
    )
    assert lab.answer(RemotingCommand(RequestCode.UPDATE_AND_CREATE_TOPIC, to_fields(header))).code == 0


def make_group(lab: BrokerLab, name: str = GROUP, **settings: Any) -> None:
    body = GroupConfig(name=name, **settings).encode()
    assert ask(lab, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body).code == 0


def query(lab: BrokerLab, key: str, *, topic: str = "t", unique: bool = False, **changes: int) -> list[bytes]:
    wish = {"max_num": 32, "begin_timestamp": 0, "end_timestamp": 1 << 62, **changes}
    header = QueryMessageRequest(topic=topic, key=key, by_unique_key=unique, **wish)
    answer = lab.answer(RemotingCommand(RequestCode.QUERY_MESSAGE, to_fields(header)))
    if answer.code == ResponseCode.QUERY_NOT_FOUND:
        return []
    assert answer.code == 0
    return [record.body for record in decode_records(answer.body)]


def commit(lab: BrokerLab, offset: int, *, group: str = GROUP, topic: str = "t") -> None:
    lab.node.rules.group(group)
    fields = {"consumerGroup": group, "topic": topic, "queueId": "0", "commitOffset": str(offset)}
    assert ask(lab, RequestCode.UPDATE_CONSUMER_OFFSET, **fields).code == 0


def test_messages_are_found_by_each_key_the_newest_first() -> None:
    lab = BrokerLab()
    for number in range(3):
        lab.send(body=b"m%d" % number, properties=texts(KEYS=f"order-{number} all", UNIQ_KEY=f"U{number}"))
    lab.send("other", b"elsewhere", properties=texts(KEYS="all"))

    assert query(lab, "order-1") == [b"m1"]
    assert query(lab, "all") == [b"m2", b"m1", b"m0"]
    assert query(lab, "all", max_num=2) == [b"m2", b"m1"]
    assert query(lab, "U2", unique=True) == [b"m2"]
    assert query(lab, "order-1", unique=True) == []
    assert query(lab, "nobody's") == []


def test_a_time_range_bounds_the_search() -> None:
    lab = BrokerLab()
    lab.send(body=b"early", properties=texts(KEYS="k"))
    between = lab.clock.ms + 1
    lab.timers.advance(1000)
    lab.send(body=b"late", properties=texts(KEYS="k"))

    assert query(lab, "k", end_timestamp=between) == [b"early"]
    assert query(lab, "k", begin_timestamp=between) == [b"late"]


def test_keys_with_the_same_hash_are_told_apart() -> None:
    """CRC-32 is linear: texts of one length with the same difference collide."""
    lab = BrokerLab()
    lab.send(body=b"plumless", properties=texts(KEYS="plumless"))
    lab.send(body=b"buckeroo", properties=texts(KEYS="buckeroo"))

    assert query(lab, "plumless") == [b"plumless"]
    assert query(lab, "buckeroo") == [b"buckeroo"]


def test_a_delayed_message_is_found_when_it_is_there() -> None:
    lab = BrokerLab()
    lab.send(body=b"later", properties=texts(KEYS="k", DELAY="1"))
    assert query(lab, "k") == []

    lab.timers.advance(2000)
    assert query(lab, "k") == [b"later"]


def test_the_index_survives_a_restart(tmp_path: Path) -> None:
    lab = BrokerLab(database=open_folder(tmp_path / "data"))
    lab.send(properties=texts(KEYS="k"))
    lab.store.close()

    assert query(BrokerLab(database=open_folder(tmp_path / "data")), "k") == [b"hello"]


def test_a_deleted_topic_leaves_nothing_behind_and_its_places_are_not_used_again(tmp_path: Path) -> None:
    lab = BrokerLab(database=open_folder(tmp_path / "data"))
    for number in range(1200):
        lab.send(body=b"m%d" % number, properties=texts(KEYS="k"))
    commit(lab, 5)
    place = lab.store.writer.place

    assert ask(lab, RequestCode.DELETE_TOPIC_IN_BROKER, topic="t").code == 0
    assert query(lab, "k") == []
    assert lab.answer(pull_command(0)).code == ResponseCode.TOPIC_NOT_EXIST
    lab.timers.advance(1000)
    assert lab.database.writing.execute("SELECT count(*) FROM messages").fetchone() == (0,)
    assert lab.database.writing.execute("SELECT count(*) FROM dropped_queues").fetchone() == (0,)
    lab.store.close()

    lab = BrokerLab(database=open_folder(tmp_path / "data"))
    lab.send(body=b"anew")
    (record,) = lab.records("t")
    assert (record.queue_offset, record.commit_log_offset, record.body) == (0, place, b"anew")
    assert lab.node.offsets.get(GROUP, "t", 0) is None


def test_a_deletion_that_was_cut_short_is_finished_by_the_next_broker(tmp_path: Path) -> None:
    lab = BrokerLab(database=open_folder(tmp_path / "data"))
    for _ in range(600):
        lab.send()
    lab.dispatch.serve(lab.request(RemotingCommand(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "t"})))
    lab.timers.step()
    lab.store.close()

    lab = BrokerLab(database=open_folder(tmp_path / "data"))
    assert lab.database.writing.execute("SELECT count(*) FROM messages").fetchone() != (0,)
    lab.store.sweep.resume()
    lab.send(body=b"meanwhile")
    lab.timers.advance(1000)
    assert [record.body for record in lab.records("t")] == [b"meanwhile"]
    assert lab.database.writing.execute("SELECT count(*) FROM messages").fetchone() == (1,)


def test_a_deletion_that_fails_leaves_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = BrokerLab()
    lab.send()

    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(dropped, "drop", full)
    refused = ask(lab, RequestCode.DELETE_TOPIC_IN_BROKER, topic="t")

    assert refused.code == ResponseCode.SYSTEM_ERROR
    assert "disk is full" in (refused.remark or "")
    assert lab.answer(pull_command(0)).code == 0
    assert lab.send().fields["queueOffset"] == "1"


@pytest.mark.parametrize("name", ["", "TBW102", SCHEDULE_TOPIC])
def test_what_the_broker_needs_is_not_deleted(name: str) -> None:
    assert ask(BrokerLab(), RequestCode.DELETE_TOPIC_IN_BROKER, topic=name).code == ResponseCode.INVALID_PARAMETER


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


def test_a_topic_of_mixed_types_is_refused() -> None:
    """As by a stock broker, where enableMixedMessageType is off."""
    lab = BrokerLab()
    make_topic(lab)
    fields = to_fields(
        UpdateTopicRequest(topic="t", default_topic="TBW102", read_queue_nums=9, write_queue_nums=9, perm=6)
    )
    refused = ask(lab, RequestCode.UPDATE_AND_CREATE_TOPIC, **{**fields, "attributes": "+message.type=MIXED"})

    assert (29, "MIXED message type is not supported.") == (refused.code, refused.remark)
    assert [1] == [topic.read_queues for name, topic in lab.node.rules.topics.items() if name == "t"]
    assert 0 == ask(lab, RequestCode.UPDATE_AND_CREATE_TOPIC, **{**fields, "attributes": "+message.type=FIFO"}).code


@pytest.mark.parametrize(
    ("code", "fields", "remark"),
    [
        (RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "no"}, "No topic route info in name server for the topic: no"),
        (RequestCode.GET_TOPIC_CONFIG, {"topic": "no"}, "No topic in this broker. topic: no"),
        (RequestCode.GET_TOPIC_STATS_INFO, {"topic": "no"}, "topic[no] not exist"),
        (RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "no"}, "no consumer for this group, no"),
        (RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": "no"}, "the consumer group[no] not online"),
        (RequestCode.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": "no"}, "the producer group[no] not exist"),
        (RequestCode.GET_KV_CONFIG, {"namespace": "a", "key": "b"}, "No config item, Namespace: a Key: b"),
        (
            RequestCode.VIEW_BROKER_STATS_DATA, {"statsName": "TOPIC_PUT_NUMS", "statsKey": "no"},
            "The stats <TOPIC_PUT_NUMS> <no> not exist",
        ),
        (
            RequestCode.GET_CONSUMER_RUNNING_INFO, {"consumerGroup": "g", "clientId": "no"},
            "The Consumer <g> <no> not online",
        ),
        (RequestCode.GET_TOPIC_CONFIG, {"topic": "a\nb\x1b"}, "No topic in this broker. topic: a\\nb\\x1b"),
        (RequestCode.GET_TOPIC_CONFIG, {"topic": "x" * 400}, f"No topic in this broker. topic: {'x' * 297}..."),
    ],
)  # fmt: skip
def test_remarks_name_things_as_rocketmq_does(code: int, fields: dict[str, str], remark: str) -> None:
    """Tools look for these texts: no quotes of ours stand in them."""
    assert remark == ask(BrokerLab(), code, **fields).remark


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


def route(lab: BrokerLab, topic: str) -> TopicRoute:
    return TopicRoute.decode(ask(lab, RequestCode.GET_ROUTEINFO_BY_TOPIC, topic=topic).body)


def test_a_wiped_broker_takes_what_reaches_it() -> None:
    lab = BrokerLab()
    make_topic(lab)
    wiped = ask(lab, RequestCode.WIPE_WRITE_PERM_OF_BROKER, brokerName="broker-a")
    assert int(wiped.fields["wipeTopicCount"]) == len(lab.node.rules.topics)
    assert route(lab, "t").queues[0].perm == 4
    assert lab.send().code == 0

    ask(lab, RequestCode.ADD_WRITE_PERM_OF_BROKER, brokerName="broker-a")
    assert route(lab, "t").queues[0].perm == 6
    assert ask(lab, RequestCode.WIPE_WRITE_PERM_OF_BROKER, brokerName="nobody").fields == {"wipeTopicCount": "0"}


def test_values_of_the_name_server_are_put_found_listed_and_dropped() -> None:
    lab = BrokerLab()
    make_topic(lab)
    order = {"namespace": "ORDER_TOPIC_CONFIG", "key": "t"}
    assert ask(lab, RequestCode.GET_KV_CONFIG, **order).code == ResponseCode.QUERY_NOT_FOUND
    assert ask(lab, RequestCode.GET_KVLIST_BY_NAMESPACE, **order).code == ResponseCode.QUERY_NOT_FOUND
    assert ask(lab, RequestCode.PUT_KV_CONFIG, value="broker-a:1", **order).code == 0

    assert ask(lab, RequestCode.GET_KV_CONFIG, **order).fields == {"value": "broker-a:1"}
    listed = KeyValues.decode(ask(lab, RequestCode.GET_KVLIST_BY_NAMESPACE, **order).body)
    assert listed.table == {"t": "broker-a:1"}
    assert route(lab, "t").order_conf == "broker-a:1"
    ask(lab, RequestCode.DELETE_KV_CONFIG, **order)
    assert route(lab, "t").order_conf is None


def test_a_group_s_settings_are_kept_acted_on_and_deleted(tmp_path: Path) -> None:
    lab = BrokerLab(database=open_folder(tmp_path / "data"))
    groups = GroupConfigList(groups=(GroupConfig(name="a", consume_timeout_minute=30), GroupConfig(name="b")))
    assert ask(lab, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, groups.encode()).code == 0
    make_group(lab, "b", consume_enable=False)
    make_topic(lab)
    forbid = {"group": "a", "topic": "t"}
    assert ask(lab, RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, readable="false", **forbid).code == 0
    lab.store.close()

    lab = BrokerLab(database=open_folder(tmp_path / "data"))
    known = GroupConfig.decode(ask(lab, RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, group="a").body)
    assert known.consume_timeout_minute == 30
    for group in ("a", "b"):
        assert lab.answer(pull_command(0, group=group)).code == ResponseCode.NO_PERMISSION
    assert dialect.loads(ask(lab, RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, **forbid).body)["readable"] is False
    ask(lab, RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, readable="true", **forbid)
    assert lab.answer(pull_command(0, group="a")).code == ResponseCode.PULL_NOT_FOUND
    assert ask(lab, RequestCode.DELETE_SUBSCRIPTIONGROUP, groupName="b", cleanOffset="true").code == 0
    assert "b" not in lab.node.rules.groups


def test_topics_are_listed_in_pages() -> None:
    lab = BrokerLab()
    for name in ("a", "b", "c"):
        make_topic(lab, name)
    whole = ask(lab, RequestCode.GET_ALL_TOPIC_CONFIG)
    total = int(whole.fields["totalTopicNum"])
    assert len(TopicConfigTable.decode(whole.body).topics) == total

    pages = [ask(lab, RequestCode.GET_ALL_TOPIC_CONFIG, topicSeq=str(first), maxTopicNum="2") for first in (0, 2)]
    names = [list(TopicConfigTable.decode(page.body).topics) for page in pages]
    assert [len(page) for page in names] == [2, 2]
    assert len({*names[0], *names[1]}) == 4


def test_progress_is_counted() -> None:
    lab = BrokerLab()
    make_topic(lab)
    make_group(lab)
    for _ in range(6):
        lab.send()
    commit(lab, 2)
    lab.answer(pull_command(2, group=GROUP))
    stats = ConsumeStats.decode(ask(lab, RequestCode.GET_CONSUME_STATS, consumerGroup=GROUP).body)
    (queue,) = stats.offsets.values()

    assert (queue.broker_offset, queue.consumer_offset, queue.pull_offset) == (6, 2, 6)
    assert stats.consume_tps == pytest.approx(4 / 60)
    (ends,) = TopicStats.decode(ask(lab, RequestCode.GET_TOPIC_STATS_INFO, topic="t").body).offsets.values()
    assert (ends.min_offset, ends.max_offset, ends.last_update_timestamp) == (0, 6, lab.clock.ms)
    lab.timers.advance(5000)
    body = ask(lab, RequestCode.QUERY_CONSUME_TIME_SPAN, topic="t", group=GROUP).body
    assert [span.delay_ms for span in ConsumeTimeSpan.decode(body).spans] == [5000]
    counted = ask(lab, RequestCode.VIEW_BROKER_STATS_DATA, statsName="GROUP_GET_NUMS", statsKey=f"t@{GROUP}")
    assert dialect.loads(counted.body)["statsDay"]["sum"] == 4
    assert ask(lab, RequestCode.VIEW_BROKER_STATS_DATA, statsName="X", statsKey="y").code == 1
