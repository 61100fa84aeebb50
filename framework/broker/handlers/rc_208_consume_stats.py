"""GET_CONSUME_STATS (208): a group's progress, queue by queue, in the topics that it reads.

Differences: a queue without a committed offset is shown at 0, as RocketMQ shows it. The rate is that of pulls.
"""

from __future__ import annotations

from framework.broker.progress import stats, topics_of
from framework.broker.request import Answer, Request, ok
from framework.wire.requests.admin import ConsumeStatsRequest


def handle(request: Request) -> Answer:
    header = request.header(ConsumeStatsRequest)
    named = [header.topic] if header.topic else [name for name in (header.topic_list or "").split(";") if name]
    topics = named or topics_of(request.node, header.consumer_group)
    return ok(body=stats(request.node, header.consumer_group, topics).encode())
