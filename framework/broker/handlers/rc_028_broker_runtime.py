"""GET_BROKER_RUNTIME_INFO (28): this broker's figures: what came and went, since when, how full the disk is.

Differences: only figures that exist here; of queues of threads, page caches and timer wheels, which do not, those
that mqadmin prints are 0. Totals count since the process began. `currentTimestamp` is beside them, by which our members
know this clock to the millisecond; of others they know it to the second, from `bootTimestamp` and `runtime`.
"""

from __future__ import annotations

from framework.broker.node import Node
from framework.broker.rates import Rate, per_second
from framework.broker.request import Answer, Request, ok
from framework.wire.bodies.config import KeyValues
from framework.wire.command import OUR_VERSION

_VERSION_NAME = "V5_3_2"  # the name of OUR_VERSION
_DAY_MINUTES = 24 * 60
# What mqadmin clusterList reads and would fail without.
_ABSENT = (
    "sendThreadPoolQueueSize", "pullThreadPoolQueueSize", "ackThreadPoolQueueSize",
    "sendThreadPoolQueueHeadWaitTimeMills", "pullThreadPoolQueueHeadWaitTimeMills",
    "ackThreadPoolQueueHeadWaitTimeMills", "queryThreadPoolQueueSize", "queryThreadPoolQueueHeadWaitTimeMills",
    "pageCacheLockTimeMills", "timerReadBehind", "timerOffsetBehind", "timerCongestNum",
)  # fmt: skip


def handle(request: Request) -> Answer:
    return ok(body=KeyValues(table=figures_of(request.node)).encode())


def figures_of(node: Node) -> dict[str, str]:
    now_ms = node.world.clock.now_ms()
    puts, gets = [node.puts], list(node.rates.values())
    first_ms = node.store.log.first_stored_ms()
    return {
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
        "commitLogDiskRatio": f"{node.store.disk_ratio():.4f}",
        "timerEnqueueTps": "0.0",
        "timerDequeueTps": "0.0",
        **dict.fromkeys(_ABSENT, "0"),
    }


def _since(seconds: int) -> str:
    minutes, hours = seconds // 60, seconds // 3600
    return f"[ {hours // 24} days, {hours % 24} hours, {minutes % 60} minutes, {seconds % 60} seconds ]"


def _per_second(node: Node, rates: list[Rate]) -> str:
    """Of about ten seconds, a minute and ten minutes, as RocketMQ lists them; here the first two are the same."""
    now_s = node.timers.time()
    minute = sum(per_second(rate, now_s) for rate in rates)
    ten = sum(rate.total(9, int(now_s // 60)) for rate in rates) / 600
    return f"{minute:.2f} {minute:.2f} {ten:.2f}"


def _totals(node: Node, name: str, rates: list[Rate], now_ms: int) -> dict[str, str]:
    """Totals now and at midnight (UTC), from which tools reckon what came today."""
    now_minute = int(node.timers.time() // 60)
    today = now_ms // 60_000 % _DAY_MINUTES
    total = sum(rate.all for rate in rates)
    return {
        f"{name}TodayNow": str(total),
        f"{name}TodayMorning": str(total - sum(rate.total(today, now_minute) for rate in rates)),
        f"{name}YesterdayMorning": str(total - sum(rate.total(_DAY_MINUTES, now_minute) for rate in rates)),
    }
