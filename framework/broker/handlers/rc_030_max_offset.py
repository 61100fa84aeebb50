"""GET_MAX_OFFSET (30): the offset that the next message will get; 0 for a queue without messages.

Differences: `committed` makes none, for nothing is visible before it is on disk.
"""

from __future__ import annotations

from framework.broker.request import Answer, Request, ok
from framework.wire.fields import to_fields
from framework.wire.requests.offset import MaxOffsetRequest, OffsetAnswer


def handle(request: Request) -> Answer:
    header = request.header(MaxOffsetRequest)
    queue = request.node.queue(header.topic, header.queue_id)
    return ok(to_fields(OffsetAnswer(offset=0 if queue is None else queue.end)))
