"""What administrators only read: lists, figures, offsets; and the requests that have nothing to do here."""

from __future__ import annotations

import pytest

from framework.model.queue import MessageQueue
from framework.model.reserved import SCHEDULE_TOPIC
from framework.wire import dialect
from framework.wire.bodies.config import GroupConfigTable, KeyValues, TopicConfig, TopicConfigList
from framework.wire.bodies.connections import GroupSubscription
from framework.wire.bodies.group import RequestMode
from framework.wire.bodies.progress import AllConsumerOffsets, BrokerConsumeStats, ConsumeStats
from framework.wire.bodies.route import GroupList, TopicList
from framework.wire.codes import RequestCode, ResponseCode
from framework.wire.command import RemotingCommand
from tests.broker.administration_lab import GROUP, ask, commit, make_group, make_topic
from tests.broker.broker_lab import ADDRESS, BrokerLab, pull_command, texts
from tests.broker.test_relays import join


def scene() -> BrokerLab:
    """Six messages in one queue, of which the group has finished two; a member is online."""
    lab = BrokerLab()
    make_topic(lab)
    make_group(lab)
    for number in range(6):
        lab.send(properties=texts(TAGS="red" if number % 2 else "green"))
    join(lab, "one")
    commit(lab, 2)
    return lab


def topics(answer: RemotingCommand) -> tuple[str, ...]:
    return TopicList.decode(answer.body).topics


def test_topics_and_groups_are_listed() -> None:
    lab = scene()
    everything = topics(ask(lab, RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER))

    assert {"t", f"%RETRY%{GROUP}", "TBW102"} <= set(everything)
    assert topics(ask(lab, RequestCode.GET_TOPICS_BY_CLUSTER, cluster="DefaultCluster")) == everything
    assert topics(ask(lab, RequestCode.GET_TOPICS_BY_CLUSTER, cluster="other")) == ()
    named = TopicList.decode(ask(lab, RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS).body)
    assert (named.topics, named.broker_addr) == (("DefaultCluster", "broker-a"), ADDRESS)
    assert SCHEDULE_TOPIC in topics(ask(lab, RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER))
    assert topics(ask(lab, RequestCode.QUERY_TOPICS_BY_CONSUMER, group=GROUP)) == ("t",)
    groups = GroupList.decode(ask(lab, RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, topic="t").body).groups
    assert groups == (GROUP,)
    table = GroupConfigTable.decode(ask(lab, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG).body)
    assert set(table.groups) == {GROUP, "TOOLS_CONSUMER"}, "a stock broker has the latter from its start, too"


def test_a_topic_is_described_and_several_are_made() -> None:
    lab = scene()
    described = TopicConfig.decode(ask(lab, RequestCode.GET_TOPIC_CONFIG, topic="t").body)
    assert (described.name, described.write_queue_nums, described.perm) == ("t", 1, 6)
    assert ask(lab, RequestCode.GET_TOPIC_CONFIG, topic="nowhere").code == ResponseCode.TOPIC_NOT_EXIST

    wish = TopicConfigList(topics=(TopicConfig(name="a", attributes={"+x": "1"}), TopicConfig(name="b")))
    assert ask(lab, RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, wish.encode()).code == 0
    assert TopicConfig.decode(ask(lab, RequestCode.GET_TOPIC_CONFIG, topic="a").body).attributes == {"x": "1"}


def test_what_a_group_wants_is_told_while_it_is_online() -> None:
    lab = scene()
    fields = {"group": GROUP, "topic": "t"}
    told = GroupSubscription.decode(ask(lab, RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, **fields).body)
    nobody = ask(lab, RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, **{**fields, "group": "nobody"})

    assert told.subscription is not None
    assert told.subscription.expression == "red || blue"
    assert GroupSubscription.decode(nobody.body).subscription is None


def test_offsets_are_told_and_cloned() -> None:
    lab = scene()
    offsets = AllConsumerOffsets.decode(ask(lab, RequestCode.GET_ALL_CONSUMER_OFFSET).body).offsets
    assert offsets == {f"t@{GROUP}": {0: 2}}

    assert ask(lab, RequestCode.CLONE_GROUP_OFFSET, srcGroup=GROUP, destGroup="copy", topic="t").code == 0
    assert lab.node.offsets.get("copy", "t", 0) == 2
    assert ask(lab, RequestCode.CLONE_GROUP_OFFSET, srcGroup=GROUP, destGroup="!").code == 29


def test_messages_that_wait_are_told_by_level() -> None:
    lab = BrokerLab()
    for level in ("1", "1", "3"):
        lab.send(properties=texts(DELAY=level))
    assert {"scheduleMessageOffset_1": "0,2", "scheduleMessageOffset_3": "0,1"} == waiting(lab)

    lab.timers.advance(3000)
    assert {"scheduleMessageOffset_1": "2,2", "scheduleMessageOffset_3": "0,1"} == waiting(lab)


def waiting(lab: BrokerLab) -> dict[str, str]:
    figures = KeyValues.decode(ask(lab, RequestCode.GET_BROKER_RUNTIME_INFO).body).table
    return {name: text for name, text in figures.items() if name.startswith("scheduleMessageOffset_")}


def test_a_queue_is_looked_into() -> None:
    lab = scene()
    fields = {"topic": "t", "queueId": "0", "index": "1", "count": "2", "consumerGroup": GROUP}
    told = dialect.loads(ask(lab, RequestCode.QUERY_CONSUME_QUEUE, **fields).body)
    nowhere = ask(lab, RequestCode.QUERY_CONSUME_QUEUE, **{**fields, "topic": "nowhere"})

    assert (told["minQueueIndex"], told["maxQueueIndex"]) == (0, 6)
    assert [entry["eval"] for entry in told["queueData"]] == [False, False], "no bitmaps, so nobody knows"
    assert told["queueData"][0]["physicOffset"] == lab.records("t")[1].commit_log_offset
    assert nowhere.code == ResponseCode.SYSTEM_ERROR


def test_all_groups_progress_is_summed() -> None:
    lab = scene()
    lab.answer(pull_command(2, group=GROUP))
    told = BrokerConsumeStats.decode(ask(lab, RequestCode.GET_BROKER_CONSUME_STATS, isOrder="false").body)
    ordered = BrokerConsumeStats.decode(ask(lab, RequestCode.GET_BROKER_CONSUME_STATS, isOrder="true").body)

    assert (told.total_diff, told.total_inflight_diff, told.broker_addr) == (4, 4, ADDRESS)
    (progress,) = each_group(told)[GROUP]
    assert progress.offsets[MessageQueue("t", "broker-a", 0)].consumer_offset == 2
    assert each_group(ordered) == {GROUP: (), "TOOLS_CONSUMER": ()}


def each_group(told: BrokerConsumeStats) -> dict[str, tuple[ConsumeStats, ...]]:
    return {group: stats for each in told.stats for group, stats in each.items()}


def test_figures_are_real_ones() -> None:
    lab = scene()
    lab.answer(pull_command(2, group=GROUP))
    lab.timers.advance(10_000)
    figures = KeyValues.decode(ask(lab, RequestCode.GET_BROKER_RUNTIME_INFO).body).table

    assert (figures["msgPutTotalTodayNow"], figures["msgGetTotalTodayNow"]) == ("6", "4")
    assert figures["putTps"].split()[1] == "0.10"
    assert int(figures["commitLogMaxOffset"]) == lab.store.writer.place
    assert int(figures["earliestMessageTimeStamp"]) == lab.clock.ms - 10_000
    assert figures["runtime"] == "[ 0 days, 0 hours, 0 minutes, 10 seconds ]"
    assert int(figures["currentTimestamp"]) == lab.clock.ms
    for name, key, total in (("TOPIC_PUT_NUMS", "t", 6), ("BROKER_PUT_NUMS", "", 6), ("BROKER_GET_NUMS", "", 4)):
        answer = ask(lab, RequestCode.VIEW_BROKER_STATS_DATA, statsName=name, statsKey=key)
        assert dialect.loads(answer.body)["statsMinute"]["sum"] == total


# What a broker of 5.5.0 answered, but for the paths of its log.
RUNTIME_KEYS = """
EndTransactionQueueSize EndTransactionThreadPoolQueueCapacity ackThreadPoolQueueCapacity
ackThreadPoolQueueHeadWaitTimeMills ackThreadPoolQueueSize bootTimestamp brokerActive brokerVersionDesc
commitLogDirCapacity commitLogDiskRatio commitLogMaxOffset commitLogMinOffset consumeQueueDiskRatio
dispatchBehindBytes dispatchMaxBuffer earliestMessageTimeStamp getFoundTps getMessageEntireTimeMax getMissTps
getTotalTps getTransferredTps litePullThreadPoolQueueCapacity litePullThreadPoolQueueHeadWaitTimeMills
litePullThreadPoolQueueSize msgGetTotalTodayMorning msgGetTotalTodayNow msgGetTotalYesterdayMorning
msgPutTotalTodayMorning msgPutTotalTodayNow msgPutTotalYesterdayMorning pageCacheLockTimeMills
pullThreadPoolQueueCapacity pullThreadPoolQueueHeadWaitTimeMills pullThreadPoolQueueSize putLatency99 putLatency999
putMessageAverageSize putMessageDistributeTime putMessageEntireTimeMax putMessageFailedTimes putMessageSizeTotal
putMessageTimesTotal putTps queryThreadPoolQueueCapacity queryThreadPoolQueueHeadWaitTimeMills
queryThreadPoolQueueSize remainHowManyDataToFlush remainTransientStoreBufferNumbs runtime
sendThreadPoolQueueCapacity sendThreadPoolQueueHeadWaitTimeMills sendThreadPoolQueueSize
startAcceptSendRequestTimeStamp timerCongestNum timerDequeueTps timerEnqueueTps timerOffsetBehind timerReadBehind
"""


def test_all_keys_that_dashboards_read_are_there() -> None:
    lab = scene()
    lab.send("later", properties=texts(DELAY="3"))
    figures = KeyValues.decode(ask(lab, RequestCode.GET_BROKER_RUNTIME_INFO).body).table

    assert set(RUNTIME_KEYS.split()) <= set(figures)
    assert "0,1" == figures["scheduleMessageOffset_3"]
    assert ("7", str(lab.node.puts.all_bytes)) == (figures["putMessageTimesTotal"], figures["putMessageSizeTotal"])
    assert lab.node.puts.all_bytes == lab.store.writer.place
    assert float(figures["putMessageAverageSize"]) == lab.store.writer.place / 7
    assert figures["commitLogDirCapacity"].startswith("Total : ")


def stats(lab: BrokerLab, name: str, key: str) -> dict[str, dict[str, float]]:
    answer = ask(lab, RequestCode.VIEW_BROKER_STATS_DATA, statsName=name, statsKey=key)
    assert answer.code == 0, answer.remark
    told: dict[str, dict[str, float]] = dialect.loads(answer.body)
    return told


def test_sizes_are_counted_as_messages_are() -> None:
    lab = scene()
    stored = lab.store.writer.place
    pulled = len(lab.answer(pull_command(2, group=GROUP)).body)

    assert {"sum": stored, "avgpt": stored / 6, "tps": stored / 60} == stats(lab, "TOPIC_PUT_SIZE", "t")["statsMinute"]
    assert {"sum": 6, "avgpt": 1, "tps": 0.1} == stats(lab, "TOPIC_PUT_NUMS", "t")["statsMinute"]
    assert {"sum": pulled, "avgpt": pulled, "tps": pulled / 60} == stats(lab, "GROUP_GET_SIZE", f"t@{GROUP}")[
        "statsMinute"
    ]
    assert {"sum": 4, "avgpt": 4, "tps": 4 / 60} == stats(lab, "GROUP_GET_NUMS", f"t@{GROUP}")["statsMinute"]
    ask(lab, RequestCode.DELETE_TOPIC_IN_BROKER, topic="t")
    refused = ask(lab, RequestCode.VIEW_BROKER_STATS_DATA, statsName="TOPIC_PUT_SIZE", statsKey="t")
    assert ResponseCode.SYSTEM_ERROR == refused.code


def test_a_minute_s_sum_outlives_the_turn_of_the_clock_s_minute() -> None:
    """It used to begin at 0 with each minute."""
    lab = scene()
    sums = {}
    for second in range(0, 90, 10):
        sums[second] = stats(lab, "BROKER_PUT_NUMS", "")["statsMinute"]["sum"]
        lab.timers.advance(10_000)

    assert {second for second, total in sums.items() if total == 6} == set(range(0, 70, 10))
    assert {0, 6} == set(sums.values())
    assert 6 == stats(lab, "BROKER_PUT_NUMS", "")["statsHour"]["sum"]


@pytest.mark.parametrize(
    ("code", "body"),
    [
        (RequestCode.CHECK_ROCKSDB_CQ_WRITE_PROGRESS, {"checkResult": {}, "checkStatus": 0}),
        (RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG, None),
        (RequestCode.REMOVE_COLD_DATA_FLOW_CTR_CONFIG, None),
        (RequestCode.GET_COLD_DATA_FLOW_CTR_INFO, {"configTable": {}, "globalAcc": 0, "runtimeTable": {}}),
    ],
)
def test_of_what_does_not_exist_here_there_is_nothing_to_tell(code: RequestCode, body: object) -> None:
    answer = ask(BrokerLab(), code, b"g=10\n")

    assert (0, body) == (answer.code, dialect.loads(answer.body) if answer.body else None)


def test_how_the_log_is_read_ahead_is_taken_as_rocketmq_takes_it() -> None:
    """mqadmin prints the remark."""
    answer = ask(BrokerLab(), RequestCode.SET_COMMITLOG_READ_MODE, READ_AHEAD_MODE="0")

    assert (0, "set commitlog readahead mode success, mode: 0") == (answer.code, answer.remark)


def test_there_are_no_lite_topics() -> None:
    told = dialect.loads(ask(BrokerLab(), RequestCode.GET_BROKER_LITE_INFO).body)

    assert {0, "default"} == {value for value in told.values() if value != {}}


@pytest.mark.parametrize(
    "code",
    [
        RequestCode.DELETE_TOPIC_IN_NAMESRV,
        RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE,
        RequestCode.CLEAN_UNUSED_TOPIC,
        RequestCode.DELETE_EXPIRED_COMMITLOG,
    ],
)
def test_where_nothing_is_to_do_the_answer_is_0(code: RequestCode) -> None:
    assert ask(BrokerLab(), code).code == 0


def test_the_name_server_and_its_broker_without_replicas() -> None:
    lab = BrokerLab()
    assert b"listenPort=10911\n" in ask(lab, RequestCode.GET_NAMESRV_CONFIG).body
    assert ask(lab, RequestCode.UPDATE_NAMESRV_CONFIG, b"a=b").code == ResponseCode.INVALID_PARAMETER
    assert dialect.loads(ask(lab, RequestCode.GET_BROKER_HA_STATUS).body)["inSyncSlaveNums"] == 0


@pytest.mark.parametrize(
    ("topic", "group", "mode", "code"),
    [("t", GROUP, "PULL", 0), ("t", GROUP, "POP", 0), ("t", GROUP, "GET", 29), ("t", "x", "PULL", 26),
     ("x", GROUP, "PULL", 17), (f"%RETRY%{GROUP}", GROUP, "PULL", 16)],
)  # fmt: skip
def test_a_group_s_way_of_taking_is_set_where_both_are_known(topic: str, group: str, mode: str, code: int) -> None:
    body = RequestMode(topic=topic, group=group, mode=mode).encode()

    assert ask(scene(), RequestCode.SET_MESSAGE_REQUEST_MODE, body).code == code
