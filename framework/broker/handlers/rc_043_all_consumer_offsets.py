"""GET_ALL_CONSUMER_OFFSET (43): where every group continues, by `topic@group` and queue.

Differences: none known. RocketMQ asks it between master and slave; here it serves tools.
"""

from __future__ import annotations

from framework.broker.request import Answer, Request, ok
from framework.wire.bodies.progress import AllConsumerOffsets


def handle(request: Request) -> Answer:
    offsets: dict[str, dict[int, int]] = {}
    for key, offset in request.node.offsets.table.items():
        offsets.setdefault(f"{key.topic}@{key.group}", {})[key.number] = offset
    return ok(body=AllConsumerOffsets(offsets=offsets).encode(quote_integer_keys=False))
