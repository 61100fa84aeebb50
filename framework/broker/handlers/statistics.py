"""Figures: what came and went, and how far groups are."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable

from framework.broker.answers import Answer, InSteps, Refusal, ok
from framework.broker.node import Node
from framework.broker.rates import Sum, Throughput
from framework.broker.request import Request
from framework.broker.store import delayed
from framework.broker.store.queues import Queue
from framework.broker.store.topics import Topic
from framework.errors import bare
from framework.model.queue import MessageQueue
from framework.model.reserved import SCHEDULE_TOPIC
from framework.wire import dialect
from framework.wire.bodies import progress
from framework.wire.bodies.config import KeyValues
from framework.wire.bodies.route import GroupList
from framework.wire.codes import ResponseCode
from framework.wire.command import OUR_VERSION
from framework.wire.frame import FRAME_BYTES_MAX, HEADER_BYTES_MAX
from framework.wire.requests import admin
from framework.wire.requests.query import ConsumeTimeSpanRequest

_VERSION_NAME = "V5_3_2"  # the name of OUR_VERSION
_DAY_MINUTES = 24 * 60
_IDLE = "0.0 0.0 0.0"
_POOLS = {
    "send": 10_000, "pull": 100_000, "litePull": 100_000, "ack": 100_000, "query": 20_000,
}  # fmt: skip
# What tools read and would fail without: as a broker has it that waits for nothing.
_IDLE_FIGURES = {
    "dispatchBehindBytes": "0", "dispatchMaxBuffer": "0", "remainHowManyDataToFlush": "0 B",
    "remainTransientStoreBufferNumbs": str(0x7FFF_FFFF), "pageCacheLockTimeMills": "0", "putMessageFailedTimes": "0",
    "putMessageEntireTimeMax": "0", "getMessageEntireTimeMax": "0", "putLatency99": "0.00", "putLatency999": "0.00",
    "getMissTps": _IDLE, "startAcceptSendRequestTimeStamp": "0",
    "timerReadBehind": "0", "timerOffsetBehind": "0", "timerCongestNum": "0", "timerEnqueueTps": "0.0",
    "timerDequeueTps": "0.0", "EndTransactionQueueSize": "0", "EndTransactionThreadPoolQueueCapacity": "100000",
    "putMessageDistributeTime": "".join(
        f"[{span}]:0 " for span in (
            "<=0ms", "0~10ms", "10~50ms", "50~100ms", "100~200ms", "200~500ms", "500ms~1s", "1~2s", "2~3s", "3~4s",
            "4~5s", "5~10s", "10s~",
        )
    ),
    **{f"{pool}ThreadPoolQueueSize": "0" for pool in _POOLS},
    **{f"{pool}ThreadPoolQueueHeadWaitTimeMills": "0" for pool in _POOLS},
    **{f"{pool}ThreadPoolQueueCapacity": str(capacity) for pool, capacity in _POOLS.items()},
}  # fmt: skip


def broker_runtime(request: Request) -> Answer:
    """GET_BROKER_RUNTIME_INFO (28): this broker's figures: what came and went, since when, how full the disk is.

    Differences: RocketMQ's keys. Those about parts that do not exist here are constant: queues of threads are empty,
    nothing waits for dispatch or disk, latencies and the distribution of times are 0, page caches and timer wheels
    idle. commitLogDiskRatio has no path. Totals begin with the process. `currentTimestamp` is added: it tells our
    members this clock to the millisecond; other brokers' clocks they know to the second, from `bootTimestamp` and
    `runtime`.
    """
    return ok(body=KeyValues(table=_figures_of(request.node)).encode())


def _figures_of(node: Node) -> dict[str, str]:
    now_ms = node.world.clock.now_ms()
    puts, gets = [node.puts], list(node.rates.values())
    first_ms = node.store.log.first_stored_ms()
    disk_ratio, stored = f"{node.store.disk_ratio():.4f}", node.puts
    return {
        **_IDLE_FIGURES,
        "brokerVersion": str(OUR_VERSION),
        "brokerVersionDesc": _VERSION_NAME,
        "brokerActive": "true",
        "bootTimestamp": str(node.started_ms),
        "runtime": _since((now_ms - node.started_ms) // 1000),
        "currentTimestamp": str(now_ms),
        "putTps": _per_second(node, puts),
        "getTransferredTps": _per_second(node, gets),
        "getFoundTps": _per_second(node, gets),
        "getTotalTps": _per_second(node, gets),
        **_totals(node, "msgPutTotal", puts, now_ms),
        **_totals(node, "msgGetTotal", gets, now_ms),
        "earliestMessageTimeStamp": str(-1 if first_ms is None else first_ms),
        "commitLogMinOffset": "0",
        "commitLogMaxOffset": str(node.store.writer.place),
        "commitLogDiskRatio": disk_ratio,
        "consumeQueueDiskRatio": disk_ratio,
        "commitLogDirCapacity": _capacity(node),
        "putMessageTimesTotal": str(max(stored.all, 1)),  # never 0, as there: tools divide by it
        "putMessageSizeTotal": str(stored.all_bytes),
        "putMessageAverageSize": str(stored.all_bytes / max(stored.all, 1)),
        **_waiting(node),
    }


def _capacity(node: Node) -> str:
    total, free = node.store.disk_bytes()
    return f"Total : {total / 2**30:.1f} GiB, Free : {free / 2**30:.1f} GiB."


def _waiting(node: Node) -> dict[str, str]:
    """By delay level: the first message that still waits, and where its queue ends."""
    reading = node.store.database.reading
    return {
        f"scheduleMessageOffset_{queue.number + 1}": f"{delayed.first_waiting(reading, queue)},{queue.end}"
        for queue in node.store.queues.of_topic(node.name, SCHEDULE_TOPIC)
    }


def _since(seconds: int) -> str:
    minutes, hours = seconds // 60, seconds // 3600
    return f"[ {hours // 24} days, {hours % 24} hours, {minutes % 60} minutes, {seconds % 60} seconds ]"


def _per_second(node: Node, rates: list[Throughput]) -> str:
    """Of about ten seconds, a minute and ten minutes, as RocketMQ lists them; here the first two are the same."""
    now_s = node.timers.time()
    minute = sum(rate.per_second(now_s) for rate in rates)
    ten = sum(rate.last_minutes(9, now_s).messages for rate in rates) / 600
    return f"{minute:.2f} {minute:.2f} {ten:.2f}"


def _totals(node: Node, name: str, rates: list[Throughput], now_ms: int) -> dict[str, str]:
    """Totals now and at midnight (UTC), from which tools reckon what came today."""
    now_s = node.timers.time()
    today = now_ms // 60_000 % _DAY_MINUTES
    total = sum(rate.all for rate in rates)
    return {
        f"{name}TodayNow": str(total),
        f"{name}TodayMorning": str(total - sum(rate.last_minutes(today, now_s).messages for rate in rates)),
        f"{name}YesterdayMorning": str(total - sum(rate.last_minutes(_DAY_MINUTES, now_s).messages for rate in rates)),
    }


_MINUTE_S = 60


def topic_stats(request: Request) -> Answer:
    """GET_TOPIC_STATS_INFO (202): where each queue of a topic begins and ends, and when it was last written to; or
    17.
    """
    header = request.header(admin.TopicStatsRequest)
    node = request.node
    topic = node.rules.topics.get(header.topic)
    if topic is None:
        raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"topic[{bare(header.topic)}] not exist")
    offsets = {}
    for number in _numbers_of(topic):
        queue = node.queue(topic.name, number)
        offsets[MessageQueue(topic.name, node.name, number)] = progress.TopicOffset(
            min_offset=0 if queue is None else queue.low,
            max_offset=0 if queue is None else queue.end,
            last_update_timestamp=0 if queue is None else _stored_ms(node, queue, queue.end - 1) or 0,
        )
    put_tps = _stored_within(node, topic.name, _MINUTE_S * 1000) / _MINUTE_S
    return ok(body=progress.TopicStats(offsets=offsets, put_tps=put_tps).encode())


def consume_time_span(request: Request) -> Answer:
    """QUERY_CONSUME_TIME_SPAN (303): how old a topic's messages are, and how far behind a group is in time; or 17.

    Differences: times are numbers only, where RocketMQ has each as a text, too. The delay of a queue without messages,
    of which a group has read nothing, is 0; RocketMQ says some fifty years, the time since message -1.
    """
    header = request.header(ConsumeTimeSpanRequest)
    node = request.node
    topic = node.rules.topics.get(header.topic)
    if topic is None:
        raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"topic[{bare(header.topic)}] not exist")
    spans = tuple(_span(node, header.group, topic.name, number) for number in _numbers_of(topic))
    return ok(body=progress.ConsumeTimeSpan(spans=spans).encode())


def _span(node: Node, group: str, topic: str, number: int) -> progress.QueueTimeSpan:
    place = MessageQueue(topic, node.name, number)
    queue = node.queue(topic, number)
    if queue is None or queue.end == queue.low:
        return progress.QueueTimeSpan(queue=place, min_timestamp=-1, max_timestamp=-1, consume_timestamp=-1)
    first_ms = _stored_ms(node, queue, queue.low) or -1
    committed = node.offsets.get(group, topic, number) or 0
    consumed_ms = _stored_ms(node, queue, committed - 1) or -1 if committed > 0 else first_ms
    waiting_ms = _stored_ms(node, queue, max(committed, queue.low))
    return progress.QueueTimeSpan(
        queue=place,
        min_timestamp=first_ms,
        max_timestamp=_stored_ms(node, queue, queue.end - 1) or -1,
        consume_timestamp=consumed_ms,
        delay_ms=0 if waiting_ms is None else node.world.clock.now_ms() - waiting_ms,
    )


_MINUTES = {"statsMinute": 1, "statsHour": 60, "statsDay": 24 * 60}
Count = Callable[[int], tuple[int, int]]
"""What was counted within so many minutes, and how many times."""


def broker_stats(request: Request) -> Answer:
    """VIEW_BROKER_STATS_DATA (315): what was counted over the last minute, hour and day; 1 where nothing is counted.

    Differences: counted are TOPIC_PUT_NUMS, TOPIC_PUT_SIZE, GROUP_GET_NUMS, GROUP_GET_SIZE, BROKER_PUT_NUMS and
    BROKER_GET_NUMS, and nothing else. The last minute is up to ten seconds longer, so that what came just now is in it.
    Figures a second are those of the whole hour or day. Counts begin with the process, but for TOPIC_PUT_NUMS.
    """
    header = request.header(admin.BrokerStatsRequest)
    count = _counted(request.node, header.stats_name, header.stats_key)
    if count is None:
        raise Refusal(
            ResponseCode.SYSTEM_ERROR,
            f"The stats <{bare(header.stats_name)}> <{bare(header.stats_key)}> not exist",
        )
    return ok(body=dialect.dumps({name: _item(*count(minutes), minutes) for name, minutes in _MINUTES.items()}))


def _item(total: int, times: int, minutes: int) -> dict[str, float]:
    return {"avgpt": total / times if times else 0.0, "sum": total, "tps": total / (minutes * 60)}


def _counted(node: Node, name: str, key: str) -> Count | None:
    topic, _, group = key.partition("@")
    given = node.rates.get((group, topic))
    match name:
        case "TOPIC_PUT_NUMS" if key in node.rules.topics:
            return lambda minutes: (count := _stored_within(node, key, minutes * 60_000), count)
        case "TOPIC_PUT_SIZE" if key in node.rules.topics:
            return lambda minutes: _size(_within(node, [node.stored.get(key, Throughput())], minutes))
        case "GROUP_GET_NUMS" if given is not None:
            return lambda minutes: _messages(_within(node, [given], minutes))
        case "GROUP_GET_SIZE" if given is not None:
            return lambda minutes: _size(_within(node, [given], minutes))
        case "BROKER_PUT_NUMS":
            return lambda minutes: (_within(node, [node.puts], minutes).messages, 0)
        case "BROKER_GET_NUMS":
            return lambda minutes: (_within(node, node.rates.values(), minutes).messages, 0)
    return None


def _messages(total: Sum) -> tuple[int, int]:
    return total.messages, total.times


def _size(total: Sum) -> tuple[int, int]:
    return total.bytes, total.times


def _within(node: Node, rates: Iterable[Throughput], minutes: int) -> Sum:
    now_s, total = node.timers.time(), Sum()
    for rate in rates:
        total = total.plus(rate.last_minute(now_s) if minutes == 1 else rate.last_minutes(minutes - 1, now_s))
    return total


def groups_of_topic(request: Request) -> Answer:
    """QUERY_TOPIC_CONSUME_BY_WHO (300): groups that read a topic, or ever committed in it."""
    header = request.header(admin.GroupsOfTopicRequest)
    return ok(body=GroupList(groups=tuple(_groups_of(request.node, header.topic))).encode())


def consume_stats(request: Request) -> Answer:
    """GET_CONSUME_STATS (208): a group's progress, queue by queue, in the topics that it reads.

    Differences: a queue without a committed offset is shown at 0, as RocketMQ shows it. The rate is that of pulls.
    """
    header = request.header(admin.ConsumeStatsRequest)
    named = [header.topic] if header.topic else [name for name in (header.topic_list or "").split(";") if name]
    topics = named or _topics_of(request.node, header.consumer_group)
    return ok(body=_progress_of(request.node, header.consumer_group, topics).encode())


_STEP_OFFSETS = 5000


def all_offsets(request: Request) -> Answer:
    """GET_ALL_CONSUMER_OFFSET (43): where every group continues, by `topic@group` and queue.

    Differences: an answer that no frame holds is refused with 2. RocketMQ asks it between master and slave; here it
    serves tools.
    """
    return InSteps(_all(request))


def _all(request: Request) -> Generator[None, None, Answer]:
    offsets: dict[str, dict[int, int]] = {}
    for i, (key, offset) in enumerate(request.node.offsets.table.items()):
        offsets.setdefault(f"{key.topic}@{key.group}", {})[key.number] = offset
        if i % _STEP_OFFSETS == 0:
            yield
    pieces, some, count = _Pieces(b'"offsetTable":{', b"}}"), dict[str, dict[int, int]](), 0
    for name, numbers in offsets.items():
        some[name] = numbers
        count += len(numbers)
        if count >= _STEP_OFFSETS:
            pieces.add(_body(some))
            some, count = {}, 0
            yield
    pieces.add(_body(some))
    return ok(body=pieces.body(_body({})))


def _body(offsets: dict[str, dict[int, int]]) -> bytes:
    return progress.AllConsumerOffsets(offsets=offsets).encode(quote_integer_keys=False)


_STEP_QUEUES = 500  # each is a look into the store, and an entry of the answer


def broker_consume_stats(request: Request) -> Answer:
    """GET_BROKER_CONSUME_STATS (317): the progress of every group of this broker.

    Differences: an answer that no frame holds is refused with 2; RocketMQ sends it, and its clients close the
    connection.
    """
    return InSteps(_all_groups(request, is_ordered=request.header(admin.BrokerConsumeStatsRequest).is_order))


def _all_groups(request: Request, *, is_ordered: bool) -> Generator[None, None, Answer]:
    node = request.node
    pieces = _Pieces(b'"consumeStatsList":[', b"]")
    total = inflight = 0
    step = _STEP_QUEUES
    for group in node.rules.groups.keys():  # noqa: SIM118
        of_group: list[progress.ConsumeStats] = []
        for name in _topics_of(node, group):
            topic = node.rules.topics.get(name)
            if topic is None or topic.is_ordered != is_ordered:
                continue
            one = _progress_of(node, group, [name])
            of_group.append(one)
            total += sum(each.broker_offset - each.consumer_offset for each in one.offsets.values())
            inflight += sum(each.pull_offset - each.consumer_offset for each in one.offsets.values())
            step -= len(one.offsets)
            if step <= 0:
                step = _STEP_QUEUES
                yield
        pieces.add(progress.BrokerConsumeStats(stats=({group: tuple(of_group)},)).encode())
    empty = progress.BrokerConsumeStats(broker_addr=node.address, total_diff=total, total_inflight_diff=inflight)
    return ok(body=pieces.body(empty.encode()))


def _topics_of(node: Node, group: str) -> list[str]:
    """What a group reads, or ever read: where members are online, what they want."""
    found = node.members.find(group)
    if found is not None and found.wanted:
        return list(found.wanted)
    return node.offsets.topics_of(group)


def _groups_of(node: Node, topic: str) -> list[str]:
    """Who reads a topic, or ever read it."""
    online = [group.name for group in node.members.groups() if topic in group.wanted]
    return list(dict.fromkeys(online + node.offsets.groups_of(topic)))


def _numbers_of(topic: Topic) -> range:
    """A topic's queues, also those that are only written to, or only read."""
    return range(max(topic.read_queues, topic.write_queues))


def _progress_of(node: Node, group: str, topics: list[str]) -> progress.ConsumeStats:
    """A group's progress in these topics."""
    offsets: dict[MessageQueue, progress.OffsetWrapper] = {}
    rate = 0.0
    for name in topics:
        topic = node.rules.topics.get(name)
        if topic is None:
            continue
        given = node.rates.get((group, name))
        rate += 0.0 if given is None else given.per_second(node.timers.time())
        for number in _numbers_of(topic):
            offsets[MessageQueue(name, node.name, number)] = _queue_progress(node, group, name, number)
    return progress.ConsumeStats(offsets=offsets, consume_tps=rate)


def _queue_progress(node: Node, group: str, topic: str, number: int) -> progress.OffsetWrapper:
    queue = node.queue(topic, number)
    committed = node.offsets.get(group, topic, number)
    end = 0 if queue is None else queue.end
    start = committed if committed is not None else 0
    return progress.OffsetWrapper(
        broker_offset=end,
        consumer_offset=start,
        pull_offset=max(node.pulled.get((group, topic, number), 0), start),
        last_timestamp=_stored_ms(node, queue, start - 1) or 0,
    )


def _stored_ms(node: Node, queue: Queue | None, offset: int) -> int | None:
    return None if queue is None else node.store.log.stored_ms(queue, offset)


def _stored_within(node: Node, topic: str, window_ms: int) -> int:
    """How many messages of a topic came in the last so many milliseconds."""
    since_ms = node.world.clock.now_ms() - window_ms
    return sum(
        queue.end - max(node.store.log.offset_at(queue, since_ms), queue.low)
        for queue in node.store.queues.of_topic(node.name, topic)
    )


_BODY_BYTES_MAX = FRAME_BYTES_MAX - HEADER_BYTES_MAX


class _Pieces:
    """Of one list or object, `opened` and `closed` by its brackets, which is the first of each body."""

    def __init__(self, opened: bytes, closed: bytes) -> None:
        self._opened, self._closed = opened, closed
        self._parts: list[bytes] = []
        self._size = 0

    def add(self, body: bytes) -> None:
        """What stands between the brackets of a whole body with a part of it. A Refusal of more than a frame holds."""
        part = self._between(body)
        self._size += len(part) + 1
        if self._size > _BODY_BYTES_MAX:
            remark = f"[OVERLOAD] an answer of more than {_BODY_BYTES_MAX} bytes; ask for one group at a time"
            raise Refusal(ResponseCode.SYSTEM_BUSY, remark)
        if part:
            self._parts.append(part)

    def body(self, empty: bytes) -> bytes:
        """The whole, of one whose brackets are empty."""
        begin, end = empty.split(self._opened + self._closed, 1)
        return b"".join((begin, self._opened, b",".join(self._parts), self._closed, end))

    def _between(self, body: bytes) -> bytes:
        begin = body.index(self._opened) + len(self._opened)
        return body[begin : body.rindex(self._closed)]
