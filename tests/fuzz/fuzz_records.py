"""Stored messages: the lazy reader against the plain one. Both see the same messages, or both see the damage.

The first byte says whether the checksums are set right before reading; without that no mutated body gets any further.
"""

from __future__ import annotations

import sys
from zlib import crc32

from framework.errors import BodyUndecodable, ProtocolError, RecordDamaged
from framework.model.message import Message
from framework.model.queue import MessageQueue
from framework.wire import compression
from framework.wire.inner_batch import InnerRecords
from framework.wire.stored import INNER_BATCH, Record, Records, decode, decode_records, encode_record
from tests.fuzz.alone import alone
from tests.wire import batches

QUEUE = MessageQueue("%RETRY%g1", "b", 0)
_GOLDEN = bytes.fromhex(
    "000000a5 daa320a7 3610a686 00000003 00000000 000000000000002a 0000000000001092 00000000 0000018bcfe56800"
    "0a000001 00001388 0000018bcfe5687b 0a000009 00002a9f 00000000 0000000000000000 00000005 68656c6c6f"
    "09 546f70696354657374 003c 4b455953016b3102 554e49515f4b455901"
    "3041303030303031303030303030303030303030303030303030303030303031 02 5441475301 54616741 02"
)
_BATCH = batches.encode([batches.BatchedMessage(b"one", {"TAGS": "a"}, 1), batches.BatchedMessage(b"two")])
SEEDS = [
    b"\x00" + _GOLDEN,
    b"\x01" + _GOLDEN * 2,
    b"\x01" + encode_record(Record(topic="t" * 200, body=b"x", properties={"RETRY_TOPIC": "orders"})),
    b"\x01" + encode_record(Record(topic="t", body=b"x", born_host=bytes(20), store_host=bytes(20))),
    b"\x01" + encode_record(Record(topic="t", body=_BATCH, sys_flag=INNER_BATCH)) + _GOLDEN,
    *(
        b"\x01"
        + encode_record(Record(topic="t", body=compression.compress(_BATCH, codec), sys_flag=flag | codec.sys_flag))
        for codec in compression.Compression
        for flag in (0, INNER_BATCH)
    ),
    b"\x00" + _GOLDEN[:-1],
    b"\x00",
]


def check(data: bytes) -> None:
    records = with_checksums(data[1:]) if data[:1] == b"\x01" else data[1:]
    try:
        expected = decode_records(records)
    except RecordDamaged:
        expected = None
    try:
        actual = [seen for message in decode(records, QUEUE) for seen in look(message)]
    except RecordDamaged:
        actual = None
    if expected is None or actual is None:
        assert (expected is None) == (actual is None)
        return
    assert [known for record in expected for known in lists(record)] == actual


def look(message: Message) -> list[tuple[object, ...]]:
    """Everything that a message shows, through the lazy reader."""
    source, at = message._source, message._at
    try:
        body: object = message.body
    except BodyUndecodable:
        body = None
    if isinstance(source, InnerRecords):
        # Its record is compared once, with the first of its messages.
        outer = look_at(source.outer, source._at) if at == source.places[0] else []
        return [*outer, (message.queue_offset, body, dict(message.properties), message.flag)]
    assert isinstance(source, Records)
    tag = source.tag(at)
    assert tag == message.tags or len(message.properties) == 1024
    assert message.topic in {source.own_topic(at), message.properties.get("RETRY_TOPIC")}
    return [*look_at(source, at), (message.queue_offset, body, dict(message.properties), message.flag)]


def look_at(source: Records, at: int) -> list[tuple[object, ...]]:
    body, sys_flag = source.stored_body(at)
    hosts = (source.born_host(at), source.store_host(at), source.born_ms(at), source.stored_ms(at))
    numbers = (sys_flag, source.flag(at), source.commit_log_offset(at), source.reconsume_times(at))
    return [(source.own_topic(at), body, source.properties(at), hosts, numbers)]


def lists(record: Record) -> list[tuple[object, ...]]:
    """The same out of a plainly read record."""
    hosts = (record.born_host, record.store_host, record.born_ms, record.stored_ms)
    numbers = (record.sys_flag, record.flag, record.commit_log_offset, record.reconsume_times)
    shown: tuple[object, ...] = (record.topic, record.body, record.properties, hosts, numbers)
    is_inner = record.sys_flag & INNER_BATCH == INNER_BATCH
    body: bytes | None
    try:
        body = compression.decompress(record.body, record.sys_flag)
        if is_inner and (parts := batches.decode(body)):
            rows = [(record.queue_offset + n, one.body, one.properties, one.flag) for n, one in enumerate(parts)]
            return [shown, *rows]
        body = None if is_inner else body
    except (BodyUndecodable, ProtocolError):
        body = None
    return [shown, (record.queue_offset, body, record.properties, record.flag)]


def with_checksums(data: bytes) -> bytes:
    """The records with checksums that fit their bodies, as far as their lengths make sense."""
    patched = bytearray(data)
    at = 0
    while at + 88 <= len(data):
        size = int.from_bytes(data[at : at + 4])
        sys_flag = int.from_bytes(data[at + 36 : at + 40])
        start = at + 88 + (12 if sys_flag & 0x10 else 0) + (12 if sys_flag & 0x20 else 0)
        body = data[start : start + int.from_bytes(data[start - 4 : start])]
        patched[at + 8 : at + 12] = (crc32(body) & 0x7FFFFFFF).to_bytes(4)
        if size < 91:
            break
        at += size
    return bytes(patched)


if __name__ == "__main__":
    sys.exit(alone("records"))
