"""SEARCH_OFFSET_BY_TIMESTAMP (29): the first offset stored at a time or later (LOWER), or the last until it (UPPER).

Differences: none known.
"""

from __future__ import annotations

from framework.broker.request import Answer, Request, ok
from framework.wire.fields import to_fields
from framework.wire.requests.offset import UPPER, OffsetAnswer, SearchOffsetRequest


def handle(request: Request) -> Answer:
    header = request.header(SearchOffsetRequest)
    queue = request.node.queue(header.topic, header.queue_id)
    if queue is None:
        return ok(to_fields(OffsetAnswer(offset=0)))
    is_upper = header.boundary_type.upper() == UPPER
    offset = request.node.store.log.offset_at(queue, header.timestamp, upper=is_upper)
    return ok(to_fields(OffsetAnswer(offset=offset)))
