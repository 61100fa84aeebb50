"""GET_EARLIEST_MSG_STORETIME (32): when the first message that is still there was stored; -1 where there is none.

Differences: none known.
"""

from __future__ import annotations

from framework.broker.request import Answer, Request, ok
from framework.wire.fields import to_fields
from framework.wire.requests.offset import EarliestStoreTimeAnswer, EarliestStoreTimeRequest


def handle(request: Request) -> Answer:
    header = request.header(EarliestStoreTimeRequest)
    queue = request.node.queue(header.topic, header.queue_id)
    stored_ms = None if queue is None else request.node.store.log.stored_ms(queue, queue.low)
    return ok(to_fields(EarliestStoreTimeAnswer(timestamp=-1 if stored_ms is None else stored_ms)))
