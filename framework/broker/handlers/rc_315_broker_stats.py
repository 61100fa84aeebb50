"""VIEW_BROKER_STATS_DATA (315): what was counted over the last minute, hour and day; 1 where nothing is counted.

Differences: counted are TOPIC_PUT_NUMS, TOPIC_PUT_SIZE, GROUP_GET_NUMS, GROUP_GET_SIZE, BROKER_PUT_NUMS and
BROKER_GET_NUMS, and nothing else. The last minute is up to ten seconds longer, so that what came just now is in it.
Figures a second are those of the whole hour or day. Counts begin with the process, but for TOPIC_PUT_NUMS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from framework.broker.node import Node
from framework.broker.progress import stored_within
from framework.broker.rates import Sum, Throughput
from framework.broker.request import Answer, Refusal, Request, ok
from framework.errors import bare
from framework.wire import dialect
from framework.wire.codes import ResponseCode
from framework.wire.requests.admin import BrokerStatsRequest

_MINUTES = {"statsMinute": 1, "statsHour": 60, "statsDay": 24 * 60}
Count = Callable[[int], tuple[int, int]]
"""What was counted within so many minutes, and how many times."""


def handle(request: Request) -> Answer:
    header = request.header(BrokerStatsRequest)
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
            return lambda minutes: (count := stored_within(node, key, minutes * 60_000), count)
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
