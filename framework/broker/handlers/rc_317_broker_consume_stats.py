"""GET_BROKER_CONSUME_STATS (317): the progress of every group of this broker.

Differences: an answer that no frame holds is refused with 2; RocketMQ sends it, and its clients close the connection.
"""

from __future__ import annotations

from collections.abc import Generator

from framework.broker.pieces import Pieces
from framework.broker.progress import stats, topics_of
from framework.broker.request import Answer, InSteps, Request, ok
from framework.wire.bodies.progress import BrokerConsumeStats, ConsumeStats
from framework.wire.requests.admin import BrokerConsumeStatsRequest

_STEP_QUEUES = 500  # each is a look into the store, and an entry of the answer


def handle(request: Request) -> Answer:
    return InSteps(_all_groups(request, is_ordered=request.header(BrokerConsumeStatsRequest).is_order))


def _all_groups(request: Request, *, is_ordered: bool) -> Generator[None, None, Answer]:
    node = request.node
    pieces = Pieces(b'"consumeStatsList":[', b"]")
    total = inflight = 0
    step = _STEP_QUEUES
    for group in node.rules.groups.keys():  # noqa: SIM118
        of_group: list[ConsumeStats] = []
        for name in topics_of(node, group):
            topic = node.rules.topics.get(name)
            if topic is None or topic.is_ordered != is_ordered:
                continue
            one = stats(node, group, [name])
            of_group.append(one)
            total += sum(each.broker_offset - each.consumer_offset for each in one.offsets.values())
            inflight += sum(each.pull_offset - each.consumer_offset for each in one.offsets.values())
            step -= len(one.offsets)
            if step <= 0:
                step = _STEP_QUEUES
                yield
        pieces.add(BrokerConsumeStats(stats=({group: tuple(of_group)},)).encode())
    empty = BrokerConsumeStats(broker_addr=node.address, total_diff=total, total_inflight_diff=inflight)
    return ok(body=pieces.body(empty.encode()))
