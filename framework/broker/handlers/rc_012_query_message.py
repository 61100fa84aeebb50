"""QUERY_MESSAGE (12): messages by a key, or by the unique key that their producer gave them; else 22.

Differences: the key itself is compared here, so a message with the same hash and another key is never sent. An answer
holds at most 64 messages, and no more than a frame of the largest message does. A message is found by the first 100 of
its keys. A query that has read 64 MiB of messages is answered with what it has found, or with 2. Messages that wait for
their time are not found before it.
"""

from __future__ import annotations

from collections.abc import Generator

from framework.broker.records import decode
from framework.broker.request import Answer, InSteps, Refusal, Request, ok
from framework.broker.store.keys import key_hash
from framework.model.message import KEYS, UNIQUE_KEY
from framework.wire.codes import ResponseCode
from framework.wire.fields import to_fields
from framework.wire.requests.query import QueryMessageAnswer, QueryMessageRequest
from framework.wire.stored import Record

_COUNT_MAX = 64  # maxMsgsNumBatch
_STEP_BYTES = 256 * 1024  # as much as a pull reads in its turn
_READ_BYTES_MAX = 64 * 1024 * 1024  # of messages that have the key's hash, whether they are meant or not
_NOWHERE = to_fields(QueryMessageAnswer(index_last_update_timestamp=0, index_last_update_phyoffset=0))


def handle(request: Request) -> Answer:
    return InSteps(_search(request, request.header(QueryMessageRequest)))


def _search(request: Request, header: QueryMessageRequest) -> Generator[None, None, Answer]:
    node = request.node
    count_max = min(max(header.max_num, 1), _COUNT_MAX)
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
