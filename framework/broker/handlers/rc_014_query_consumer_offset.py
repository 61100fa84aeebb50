"""QUERY_CONSUMER_OFFSET (14): where a group goes on in a queue, or 22.

Differences: where nothing is stored the answer is always 22. RocketMQ says 0 while a topic is young, so that a group
that wants to start at the end starts at the beginning instead; clients treat 22 as their own setting says.
"""

from __future__ import annotations

from framework.broker.request import Answer, Refusal, Request, ok
from framework.wire.codes import ResponseCode
from framework.wire.fields import from_fields, to_fields
from framework.wire.requests.offset import OffsetAnswer, QueryOffsetRequest


def handle(request: Request) -> Answer:
    header = from_fields(QueryOffsetRequest, request.command.fields)
    offset = request.node.offsets.get(header.consumer_group, header.topic, header.queue_id)
    if offset is None:
        raise Refusal(ResponseCode.QUERY_NOT_FOUND, "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first")
    return ok(to_fields(OffsetAnswer(offset=offset)))
