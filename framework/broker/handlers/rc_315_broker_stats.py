"""VIEW_BROKER_STATS_DATA (315): messages counted over the last minute, hour and day; 1 where nothing is counted.

Differences: counted are TOPIC_PUT_NUMS, GROUP_GET_NUMS, BROKER_PUT_NUMS and BROKER_GET_NUMS, and nothing else. The
last minute is the one under way and the one before, in proportion. Counts begin with the process, but for topics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from framework.broker.node import Node
from framework.broker.progress import stored_within
from framework.broker.rates import Rate
from framework.broker.request import Answer, Refusal, Request, ok
from framework.errors import shorten
from framework.wire import dialect
from framework.wire.codes import ResponseCode
from framework.wire.fields import from_fields
from framework.wire.requests.admin import BrokerStatsRequest

_MINUTES = {"statsMinute": 1, "statsHour": 60, "statsDay": 24 * 60}
Count = Callable[[int], int]
"""Messages within so many minutes."""


def handle(request: Request) -> Answer:
    header = from_fields(BrokerStatsRequest, request.command.fields)
    count = _counted(request.node, header.stats_name, header.stats_key)
    if count is None:
        raise Refusal(
            ResponseCode.SYSTEM_ERROR,
            f"The stats <{shorten(header.stats_name)}> <{shorten(header.stats_key)}> not exist",
        )
    return ok(body=dialect.dumps({name: _item(count(minutes), minutes) for name, minutes in _MINUTES.items()}))


def _item(total: int, minutes: int) -> dict[str, float]:
    return {"avgpt": 0.0, "sum": total, "tps": total / (minutes * 60)}


def _counted(node: Node, name: str, key: str) -> Count | None:
    match name:
        case "TOPIC_PUT_NUMS" if key in node.rules.topics:
            return lambda minutes: stored_within(node, key, minutes * 60_000)
        case "GROUP_GET_NUMS":
            topic, _, group = key.partition("@")
            rate = node.rates.get((group, topic))
            return None if rate is None else _of_rates(node, [rate])
        case "BROKER_PUT_NUMS":
            return _of_rates(node, [node.puts])
        case "BROKER_GET_NUMS":
            return _of_rates(node, list(node.rates.values()))
    return None


def _of_rates(node: Node, rates: Iterable[Rate]) -> Count:
    now_minute = int(node.timers.time() // 60)
    return lambda minutes: sum(rate.total(minutes - 1, now_minute) for rate in rates)
