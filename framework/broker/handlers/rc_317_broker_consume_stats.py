"""GET_BROKER_CONSUME_STATS (317): the progress of every group of this broker.

Differences: none known.
"""

from __future__ import annotations

from framework.broker.progress import stats, topics_of
from framework.broker.request import Answer, Request, ok
from framework.wire.bodies.progress import BrokerConsumeStats, ConsumeStats
from framework.wire.requests.admin import BrokerConsumeStatsRequest


def handle(request: Request) -> Answer:
    header = request.header(BrokerConsumeStatsRequest)
    node = request.node
    rows: list[dict[str, tuple[ConsumeStats, ...]]] = []
    total = inflight = 0
    for group in node.rules.groups.keys():  # noqa: SIM118
        of_group: list[ConsumeStats] = []
        for name in topics_of(node, group):
            topic = node.rules.topics.get(name)
            if topic is None or topic.is_ordered != header.is_order:
                continue
            one = stats(node, group, [name])
            of_group.append(one)
            total += sum(each.broker_offset - each.consumer_offset for each in one.offsets.values())
            inflight += sum(each.pull_offset - each.consumer_offset for each in one.offsets.values())
        rows.append({group: tuple(of_group)})
    answer = BrokerConsumeStats(
        stats=tuple(rows), broker_addr=node.address, total_diff=total, total_inflight_diff=inflight
    )
    return ok(body=answer.encode())
