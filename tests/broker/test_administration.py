"""What administrators change and read, by the requests themselves: topics, groups, routes, values, progress."""

from __future__ import annotations

from pathlib import Path

import pytest

from framework.broker.store.database import open_folder
from framework.wire import dialect
from framework.wire.bodies.config import GroupConfig, GroupConfigList, KeyValues, TopicConfigTable
from framework.wire.bodies.progress import ConsumeStats, ConsumeTimeSpan, TopicStats
from framework.wire.codes import RequestCode, ResponseCode
from framework.wire.fields import to_fields
from framework.wire.requests.admin import UpdateTopicRequest
from tests.broker.administration_lab import GROUP, ask, commit, make_group, make_topic, route
from tests.broker.broker_lab import BrokerLab, pull_command


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
