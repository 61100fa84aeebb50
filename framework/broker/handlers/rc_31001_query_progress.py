"""BOX_QUERY_PROGRESS (31001): what a group has finished above a gap in a queue, with its epoch; or 22.

Differences: RocketMQ has no such request. It is for members of ours with `progress: broker`.
"""

from __future__ import annotations

from framework.broker.acquisitions import place_of
from framework.broker.request import Answer, Refusal, Request, ok
from framework.wire.codes import ResponseCode
from framework.wire.fields import to_fields
from framework.wire.requests.progress import ProgressAnswer, QueryProgressRequest


def handle(request: Request) -> Answer:
    header = request.header(QueryProgressRequest)
    key = place_of(request.node, header.consumer_group, header.topic, header.queue_id)
    kept = request.node.progress.get(key)
    if kept is None:
        raise Refusal(ResponseCode.QUERY_NOT_FOUND, f"{header.consumer_group} has kept nothing of {header.topic}")
    return ok(to_fields(ProgressAnswer(epoch=kept.epoch)), kept.content)
