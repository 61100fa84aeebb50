"""GET_MIN_OFFSET (31): the first offset that is still there; 0 for a queue without messages.

Differences: none known.
"""

from __future__ import annotations

from framework.broker.request import Answer, Request, ok
from framework.wire.fields import to_fields
from framework.wire.requests.offset import MinOffsetRequest, OffsetAnswer


def handle(request: Request) -> Answer:
    header = request.header(MinOffsetRequest)
    queue = request.node.queue(header.topic, header.queue_id)
    return ok(to_fields(OffsetAnswer(offset=0 if queue is None else queue.low)))
