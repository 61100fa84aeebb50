"""Messages looked up: by key, by place, and as their queue lists them."""

from __future__ import annotations

from collections.abc import Generator, Iterable

from framework.broker.answers import Answer, InSteps, Refusal, ok
from framework.broker.filters import tag_hash
from framework.broker.handlers.members import subscription_of
from framework.broker.records import decode
from framework.broker.request import Request
from framework.broker.store.keys import key_hash
from framework.errors import bare
from framework.model.message import KEYS, TAGS, UNIQUE_KEY
from framework.wire import dialect
from framework.wire.bodies.shape import to_json
from framework.wire.codes import ResponseCode
from framework.wire.fields import to_fields
from framework.wire.requests.query import (
    ConsumeQueueRequest,
    QueryMessageAnswer,
    QueryMessageRequest,
    ViewMessageRequest,
)
from framework.wire.stored import Record

_FOUND_MAX = 64  # maxMsgsNumBatch
_STEP_BYTES = 256 * 1024  # as much as a pull reads in its turn
_READ_BYTES_MAX = 64 * 1024 * 1024  # of messages that have the key's hash, whether they are meant or not
_NOWHERE = to_fields(QueryMessageAnswer(index_last_update_timestamp=0, index_last_update_phyoffset=0))


def query_message(request: Request) -> Answer:
    """QUERY_MESSAGE (12): messages by a key, or by the unique key that their producer gave them; else 22.

    Differences: the key itself is compared here, so a message with the same hash and another key is never sent. An
    answer holds at most 64 messages, and no more than a frame of the largest message does. A message is found by the
    first 100 of its keys. A query that has read 64 MiB of messages is answered with what it has found, or with 2.
    Messages that wait for their time are not found before it.
    """
    return InSteps(_search(request, request.header(QueryMessageRequest)))


def _search(request: Request, header: QueryMessageRequest) -> Generator[None, None, Answer]:
    node = request.node
    count_max = min(max(header.max_num, 1), _FOUND_MAX)
    hash_ = key_hash(header.topic, header.key)
    records: list[bytes] = []
    newest: Record | None = None
    size, read, step, most = 0, 0, 0, node.settings.answer_bytes_max
    for found in node.store.log.with_key_hash(hash_, header.begin_timestamp, header.end_timestamp):
        if found is None or step >= _STEP_BYTES:
            step = 0
            yield
        if found is None:
            continue
        queue, data = found
        step += len(data)
        read += len(data)
        record = decode(data) if queue.broker == node.name else None
        if record is not None and _is_meant(record, header):
            size += len(data)
            if records and size > most:
                break
            records.append(data)
            newest = newest or record
        if len(records) == count_max or read >= _READ_BYTES_MAX:
            break
    if newest is None and read >= _READ_BYTES_MAX:
        remark = f"[OVERLOAD] a query by key reads {_READ_BYTES_MAX} bytes of messages at most; name a shorter time"
        raise Refusal(ResponseCode.SYSTEM_BUSY, remark, _NOWHERE)
    if newest is None:
        raise Refusal(ResponseCode.QUERY_NOT_FOUND, "can not find message, maybe time range not correct", _NOWHERE)
    answer = QueryMessageAnswer(
        index_last_update_timestamp=newest.stored_ms, index_last_update_phyoffset=newest.commit_log_offset
    )
    return ok(to_fields(answer), b"".join(records))


def _is_meant(record: Record, header: QueryMessageRequest) -> bool:
    if record.topic != header.topic:
        return False
    if record.properties.get(UNIQUE_KEY) == header.key:
        return True
    return not header.by_unique_key and header.key in record.properties.get(KEYS, "").split()


def view_message(request: Request) -> Answer:
    """VIEW_MESSAGE_BY_ID (33): the record at a commit-log offset.

    Differences: an offset inside a record finds nothing; RocketMQ reads from there and may answer garbage.
    """
    header = request.header(ViewMessageRequest)
    found = request.node.store.log.at_place(header.offset)
    if found is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"can not find message by offset: {header.offset}")
    return ok(body=found[1])


_LISTED_MAX = 1000
_LISTED_BYTES_MAX = 1024 * 1024  # read for it: only their sizes and tags are answered


def query_consume_queue(request: Request) -> Answer:
    """QUERY_CONSUME_QUEUE (321): what a queue holds at some offsets: places, sizes, hashes of tags; 1 for no queue.

    Differences: a queue exists from its first message on; RocketMQ's exists, and is empty, once a client pulled from
    it.
    """
    header = request.header(ConsumeQueueRequest)
    node = request.node
    queue = node.queue(header.topic, header.queue_id)
    if queue is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"{header.queue_id}@{bare(header.topic)} is not exist!")
    group = node.members.find(header.consumer_group or "")
    wanted = None if group is None else group.wanted.get(header.topic)
    start, count = max(header.index, queue.low), min(max(header.count, 0), _LISTED_MAX)
    if not 0 <= header.index < queue.end:
        return ok(remark=f"Index {header.index} of {header.queue_id}@{header.topic} is not exist!")
    records: Iterable[bytes] = ()
    if start < queue.end and count:
        records = node.store.log.read(queue, start, count_max=count, bytes_max=_LISTED_BYTES_MAX).records
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
