"""QUERY_CONSUME_TIME_SPAN (303): how old a topic's messages are, and how far behind a group is in time; or 17.

Differences: times are numbers only, where RocketMQ has each as a text, too. The delay of a queue without messages, of
which a group has read nothing, is 0; RocketMQ says some fifty years, the time since message -1.
"""

from __future__ import annotations

from framework.broker.node import Node
from framework.broker.progress import numbers_of, stored_ms
from framework.broker.request import Answer, Refusal, Request, ok
from framework.errors import bare
from framework.model.queue import MessageQueue
from framework.wire.bodies.progress import ConsumeTimeSpan, QueueTimeSpan
from framework.wire.codes import ResponseCode
from framework.wire.requests.query import ConsumeTimeSpanRequest


def handle(request: Request) -> Answer:
    header = request.header(ConsumeTimeSpanRequest)
    node = request.node
    topic = node.rules.topics.get(header.topic)
    if topic is None:
        raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"topic[{bare(header.topic)}] not exist")
    spans = tuple(_span(node, header.group, topic.name, number) for number in numbers_of(topic))
    return ok(body=ConsumeTimeSpan(spans=spans).encode())


def _span(node: Node, group: str, topic: str, number: int) -> QueueTimeSpan:
    place = MessageQueue(topic, node.name, number)
    queue = node.queue(topic, number)
    if queue is None or queue.end == queue.low:
        return QueueTimeSpan(queue=place, min_timestamp=-1, max_timestamp=-1, consume_timestamp=-1)
    first_ms = stored_ms(node, queue, queue.low) or -1
    committed = node.offsets.get(group, topic, number) or 0
    consumed_ms = stored_ms(node, queue, committed - 1) or -1 if committed > 0 else first_ms
    waiting_ms = stored_ms(node, queue, max(committed, queue.low))
    return QueueTimeSpan(
        queue=place,
        min_timestamp=first_ms,
        max_timestamp=stored_ms(node, queue, queue.end - 1) or -1,
        consume_timestamp=consumed_ms,
        delay_ms=0 if waiting_ms is None else node.world.clock.now_ms() - waiting_ms,
    )
