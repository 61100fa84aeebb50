"""GET_BROKER_RUNTIME_INFO (28): this broker's figures: what came and went, since when, how full the disk is.

Differences: RocketMQ's keys. Those about parts that do not exist here are constant: queues of threads are empty,
nothing waits for dispatch or disk, latencies and the distribution of times are 0, page caches and timer wheels idle.
commitLogDiskRatio has no path. Totals begin with the process. `currentTimestamp` is added: it tells our members this
clock to the millisecond; other brokers' clocks they know to the second, from `bootTimestamp` and `runtime`.
"""

from __future__ import annotations

from framework.broker.node import Node
from framework.broker.rates import Throughput
from framework.broker.request import Answer, Request, ok
from framework.broker.store import delayed
from framework.model.reserved import SCHEDULE_TOPIC
from framework.wire.bodies.config import KeyValues
from framework.wire.command import OUR_VERSION

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


def handle(request: Request) -> Answer:
    return ok(body=KeyValues(table=figures_of(request.node)).encode())


def figures_of(node: Node) -> dict[str, str]:
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
