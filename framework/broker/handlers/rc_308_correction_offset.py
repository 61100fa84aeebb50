"""QUERY_CORRECTION_OFFSET (308): the lowest offset of all groups but some, by queue, unless one group is past it.

Differences: none known.
"""

from __future__ import annotations

from framework.broker.request import Answer, Request, ok
from framework.wire.bodies.progress import CorrectionOffsets
from framework.wire.requests.offset import CorrectionOffsetRequest

_PAST = (1 << 63) - 1  # Java's largest long: the group compared with is further


def handle(request: Request) -> Answer:
    header = request.header(CorrectionOffsetRequest)
    offsets = request.node.offsets
    left_out = (header.filter_groups or "").split(",")
    lowest: dict[int, int] = {}
    for key, offset in offsets.table.items():
        if key.topic == header.topic and key.group not in left_out:
            lowest[key.number] = min(offset, lowest.get(key.number, offset))
    for number, offset in lowest.items():
        compared = offsets.get(header.compare_group, header.topic, number)
        if compared is not None and compared > offset:
            lowest[number] = _PAST
    return ok(body=CorrectionOffsets(offsets=lowest).encode(quote_integer_keys=False))
