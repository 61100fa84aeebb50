"""Stored records field by field, for whoever writes them or wants every field at once: brokers, tools, tests.

The layout is drawn in `stored.py`, which reads the same bytes lazily. Here every field is read and checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from struct import Struct

from framework.errors import RecordDamaged, shorten
from framework.mistakes import MessageWrong
from framework.wire import ids, properties

try:
    from zlib_ng.zlib_ng import crc32 as crc32  # noqa: PLC0414  # in a third of zlib's time
except ImportError:  # a machine without a wheel of it; Spark's workers that were sent pure Python alone
    from zlib import crc32 as crc32  # noqa: PLC0414

MAGIC_V1 = -626843481
MAGIC_V2 = -626843477
V1_TOPIC_BYTES_MAX = 127

BORN_HOST_V6 = 0x10
STORE_HOST_V6 = 0x20
_SYS_FLAG_AT = 36
SIZE_MIN = 91  # no body, a topic of length 0, no properties

_INT = Struct(">i")
_SHORT = Struct(">h")
_UNSIGNED_SHORT = Struct(">H")

# Size to born ms, born host, stored ms, store host, reconsume times, prepared transaction offset, body length.
_HEADS = {
    (born, store): Struct(f">iiiiiqqiq{born}sq{store}siqi")
    for born in (ids.IPV4_HOST_BYTES, ids.IPV6_HOST_BYTES)
    for store in (ids.IPV4_HOST_BYTES, ids.IPV6_HOST_BYTES)
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One stored message, field by field. `body` is as stored: compressed where sysFlag says so."""

    topic: str
    body: bytes
    properties: Mapping[str, str] = field(default_factory=dict)
    queue_id: int = 0
    flag: int = 0
    queue_offset: int = 0
    commit_log_offset: int = 0
    sys_flag: int = 0
    """The bits for IPv6 hosts follow from the hosts when a record is written."""
    born_ms: int = 0
    born_host: bytes = bytes(ids.IPV4_HOST_BYTES)
    stored_ms: int = 0
    store_host: bytes = bytes(ids.IPV4_HOST_BYTES)
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0


def encode_record(record: Record, texts: bytes | None = None) -> bytes:
    """The record's bytes; V2 where the topic is too long for V1, as brokers do.

    `texts` are its properties where the caller has them as they are to be stored; their size is all that is checked.
    """
    topic, body = record.topic.encode(), record.body
    if texts is None:
        texts = properties.encode(record.properties).encode()
    elif len(texts) > properties.BYTES_MAX:
        raise MessageWrong(f"properties of {len(texts)} bytes exceed the {properties.BYTES_MAX} of a message")
    is_long = len(topic) > V1_TOPIC_BYTES_MAX
    if len(topic) > 0x7FFF:
        raise MessageWrong(f"topic {shorten(record.topic)} of {len(topic)} bytes does not fit a record")
    born_host, store_host = record.born_host, record.store_host
    sys_flag = record.sys_flag & ~(BORN_HOST_V6 | STORE_HOST_V6)
    sys_flag |= BORN_HOST_V6 if len(born_host) == ids.IPV6_HOST_BYTES else 0
    sys_flag |= STORE_HOST_V6 if len(store_host) == ids.IPV6_HOST_BYTES else 0
    head = _HEADS[len(born_host), len(store_host)]
    topic_head = _UNSIGNED_SHORT.pack(len(topic)) if is_long else bytes((len(topic),))
    size = head.size + len(body) + len(topic_head) + len(topic) + _SHORT.size + len(texts)
    return b"".join(
        (
            head.pack(
                size, MAGIC_V2 if is_long else MAGIC_V1, crc32(body) & 0x7FFF_FFFF, record.queue_id, record.flag,
                record.queue_offset, record.commit_log_offset, sys_flag, record.born_ms, born_host,
                record.stored_ms, store_host, record.reconsume_times, record.prepared_transaction_offset, len(body),
            ),
            body, topic_head, topic, _SHORT.pack(len(texts)), texts,
        )
    )  # fmt: skip


def decode_records(data: bytes) -> list[Record]:
    """Every record with every field, all of it checked. RecordDamaged where anything is wrong anywhere."""
    records = []
    at = 0
    while at < len(data):
        record, at = _read_record(data, at)
        records.append(record)
    return records


def _read_record(data: bytes, at: int) -> tuple[Record, int]:
    """The record that begins there, and where the next one does."""

    def damaged(what: str) -> RecordDamaged:
        return RecordDamaged(f"record at byte {at}: {what}")

    left = len(data) - at
    hosts = _INT.unpack_from(data, at + _SYS_FLAG_AT)[0] if left >= SIZE_MIN else 0
    head = _HEADS[host_size(hosts & BORN_HOST_V6), host_size(hosts & STORE_HOST_V6)]
    if left < head.size:
        raise damaged(f"{left} bytes are left")
    (
        size, magic, checksum, queue_id, flag, queue_offset, commit_log_offset, sys_flag, born_ms, born_host,
        stored_ms, store_host, reconsume_times, prepared, body_size,
    ) = head.unpack_from(data, at)  # fmt: skip
    if not SIZE_MIN <= size <= left:
        raise damaged(f"size {size} of {left}")
    if magic not in {MAGIC_V1, MAGIC_V2}:
        raise damaged(f"magic number {magic}")
    end, body_at = at + size, at + head.size
    length_at = body_at + body_size
    topic_at = length_at + (1 if magic == MAGIC_V1 else 2)
    if body_size < 0 or topic_at > end:
        raise damaged(f"body of {body_size} bytes in a record of {size}")
    topic_end = topic_at + int.from_bytes(data[length_at:topic_at])
    texts_at = topic_end + _SHORT.size
    if texts_at > end or texts_at + _SHORT.unpack_from(data, topic_end)[0] != end:
        raise damaged("topic and properties do not end where it does")
    body, topic = data[body_at:length_at], data[topic_at:topic_end]
    if crc32(body) & 0x7FFF_FFFF != checksum:
        raise damaged(f"checksum {checksum}")
    try:
        name = topic.decode()
    except UnicodeDecodeError as error:
        raise damaged(f"topic {shorten(topic)}") from error
    record = Record(
        topic=name, body=body, properties=properties.decode_stored(data[texts_at:end]), queue_id=queue_id, flag=flag,
        queue_offset=queue_offset, commit_log_offset=commit_log_offset, sys_flag=sys_flag, born_ms=born_ms,
        born_host=born_host, stored_ms=stored_ms, store_host=store_host, reconsume_times=reconsume_times,
        prepared_transaction_offset=prepared,
    )  # fmt: skip
    return record, end


@lru_cache
def mark_of(topic: str) -> bytes:
    """What stands behind the body of a common record of this topic: the length of its name, and the name."""
    name = topic.encode()
    return bytes((min(len(name), 255),)) + name


def host_size(is_v6: int) -> int:
    return ids.IPV6_HOST_BYTES if is_v6 else ids.IPV4_HOST_BYTES
