"""GET_ALL_CONSUMER_OFFSET (43): where every group continues, by `topic@group` and queue.

Differences: an answer that no frame holds is refused with 2. RocketMQ asks it between master and slave; here it serves
tools.
"""

from __future__ import annotations

from collections.abc import Generator

from framework.broker.pieces import Pieces
from framework.broker.request import Answer, InSteps, Request, ok
from framework.wire.bodies.progress import AllConsumerOffsets

_STEP_OFFSETS = 5000


def handle(request: Request) -> Answer:
    return InSteps(_all(request))


def _all(request: Request) -> Generator[None, None, Answer]:
    offsets: dict[str, dict[int, int]] = {}
    for i, (key, offset) in enumerate(request.node.offsets.table.items()):
        offsets.setdefault(f"{key.topic}@{key.group}", {})[key.number] = offset
        if i % _STEP_OFFSETS == 0:
            yield
    pieces, some, count = Pieces(b'"offsetTable":{', b"}}"), dict[str, dict[int, int]](), 0
    for name, numbers in offsets.items():
        some[name] = numbers
        count += len(numbers)
        if count >= _STEP_OFFSETS:
            pieces.add(_body(some))
            some, count = {}, 0
            yield
    pieces.add(_body(some))
    return ok(body=pieces.body(_body({})))


def _body(offsets: dict[str, dict[int, int]]) -> bytes:
    return AllConsumerOffsets(offsets=offsets).encode(quote_integer_keys=False)
