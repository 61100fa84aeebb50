"""QUERY_CONSUMER_OFFSET (14): where a group continues in a queue, or 22; 0 while the topic is young.

Differences: a queue counts as young while its first message is there and among the last GiB that was stored; RocketMQ
asks whether the message is in memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from framework.broker.request import Answer, Refusal, Request, ok
from framework.wire.codes import ResponseCode
from framework.wire.fields import to_fields
from framework.wire.requests.offset import OffsetAnswer, QueryOffsetRequest

if TYPE_CHECKING:
    from framework.broker.node import Node

# One file of RocketMQ's log, mapped whole: what lies in the newest one is in memory on any machine.
YOUNG_BYTES = 1 << 30


def handle(request: Request) -> Answer:
    header = request.header(QueryOffsetRequest)
    offset = request.node.offsets.get(header.consumer_group, header.topic, header.queue_id)
    if offset is None:
        if header.set_zero_if_not_found is False:
            reason = "Not found, do not set to zero, maybe this group boot first"
            raise Refusal(ResponseCode.QUERY_NOT_FOUND, reason)
        if not _is_young(request.node, header.topic, header.queue_id):
            reason = "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"
            raise Refusal(ResponseCode.QUERY_NOT_FOUND, reason)
        # A new group that wants to begin at the end still gets the first messages: Java's default counts on it.
        offset = 0
    return ok(to_fields(OffsetAnswer(offset=offset)))


def _is_young(node: Node, topic: str, number: int) -> bool:
    queue = node.queue(topic, number)
    if queue is None or queue.low > 0 or queue.end == 0:
        return False
    place = node.store.log.place_of(queue, 0)
    return place is not None and node.store.writer.place - place <= YOUNG_BYTES
