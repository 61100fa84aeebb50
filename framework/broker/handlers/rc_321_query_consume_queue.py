"""QUERY_CONSUME_QUEUE (321): what a queue holds at some offsets: places, sizes, hashes of tags; 1 for no queue.

Differences: a queue exists from its first message on; RocketMQ's exists, and is empty, once a client pulled from it.
"""

from __future__ import annotations

from collections.abc import Iterable

from framework.broker.connections import subscription_of
from framework.broker.filters import tag_hash
from framework.broker.records import decode
from framework.broker.request import Answer, Refusal, Request, ok
from framework.errors import bare
from framework.model.message import TAGS
from framework.wire import dialect
from framework.wire.bodies.shape import to_json
from framework.wire.codes import ResponseCode
from framework.wire.requests.query import ConsumeQueueRequest

_COUNT_MAX = 1000
_BYTES_MAX = 1024 * 1024  # read for it: only their sizes and tags are answered


def handle(request: Request) -> Answer:
    header = request.header(ConsumeQueueRequest)
    node = request.node
    queue = node.queue(header.topic, header.queue_id)
    if queue is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"{header.queue_id}@{bare(header.topic)} is not exist!")
    group = node.members.find(header.consumer_group or "")
    wanted = None if group is None else group.wanted.get(header.topic)
    start, count = max(header.index, queue.low), min(max(header.count, 0), _COUNT_MAX)
    if not 0 <= header.index < queue.end:
        return ok(remark=f"Index {header.index} of {header.queue_id}@{header.topic} is not exist!")
    records: Iterable[bytes] = ()
    if start < queue.end and count:
        records = node.store.log.read(queue, start, count_max=count, bytes_max=_BYTES_MAX).records
    answer = {
        "maxQueueIndex": queue.end,
        "minQueueIndex": queue.low,
        "queueData": [_entry(record) for record in records],
    }
    if wanted is not None:
        answer["subscriptionData"] = to_json(subscription_of(wanted))
    return ok(body=dialect.dumps(answer))


def _entry(data: bytes) -> dict[str, object]:
    record = decode(data)
    return {
        "eval": False,  # what a bitmap of filters would say; there is none here, and on a stock broker
        "physicOffset": record.commit_log_offset,
        "physicSize": len(data),
        "tagsCode": tag_hash(record.properties.get(TAGS)),
    }
