"""GET_TOPIC_STATS_INFO (202): where each queue of a topic begins and ends, and when it was last written to; or 17.

Differences: none known.
"""

from __future__ import annotations

from framework.broker.progress import numbers_of, stored_ms, stored_within
from framework.broker.request import Answer, Refusal, Request, ok
from framework.errors import bare
from framework.model.queue import MessageQueue
from framework.wire.bodies.progress import TopicOffset, TopicStats
from framework.wire.codes import ResponseCode
from framework.wire.requests.admin import TopicStatsRequest

_MINUTE_S = 60


def handle(request: Request) -> Answer:
    header = request.header(TopicStatsRequest)
    node = request.node
    topic = node.rules.topics.get(header.topic)
    if topic is None:
        raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"topic[{bare(header.topic)}] not exist")
    offsets = {}
    for number in numbers_of(topic):
        queue = node.queue(topic.name, number)
        offsets[MessageQueue(topic.name, node.name, number)] = TopicOffset(
            min_offset=0 if queue is None else queue.low,
            max_offset=0 if queue is None else queue.end,
            last_update_timestamp=0 if queue is None else stored_ms(node, queue, queue.end - 1) or 0,
        )
    put_tps = stored_within(node, topic.name, _MINUTE_S * 1000) / _MINUTE_S
    return ok(body=TopicStats(offsets=offsets, put_tps=put_tps).encode())
