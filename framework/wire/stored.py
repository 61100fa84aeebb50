"""Messages as a commit log stores them: the body of a pull's answer, one record after the other.

    0  size        16  flag                 40  born ms
    4  magic       20  queue offset         48  born host (8 bytes, or 20 with bit 4 of sysFlag)
    8  body crc    28  commit-log offset    ..  stored ms | store host (8, or 20 with bit 5) | reconsume times
    12 queue id    36  sysFlag              ..  prepared transaction offset | body length | body
                                            ..  topic length (1 byte; 2 in V2) | topic | properties length | properties

`decode` notes where each record lies and copies nothing: it is the one piece of the wire that each message pays for.
What it has to refuse, it refuses before it hands out the first message. Checksum, topic and properties are held
against the record when they are first read. `decode_records` reads the same bytes plainly; the two are tested against
each other.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from struct import Struct
from typing import NoReturn
from zlib import crc32

from framework.errors import ConfigurationError, RecordDamaged, shorten
from framework.model.message import RETRY_TOPIC, TAGS, Message
from framework.model.queue import MessageQueue
from framework.model.reserved import RETRY_PREFIX, is_legal
from framework.wire import compression, ids, properties
from framework.wire.inner_batch import InnerRecords, places_of, take_apart

MAGIC_V1 = -626843481
MAGIC_V2 = -626843477
V1_TOPIC_BYTES_MAX = 127

BORN_HOST_V6 = 0x10
STORE_HOST_V6 = 0x20
INNER_BATCH = 0xC0  # both bits: stored whole, and to be taken apart by the consumer
_UNCOMMON = BORN_HOST_V6 | STORE_HOST_V6 | INNER_BATCH
_SELDOM = _UNCOMMON | compression.COMPRESSED

# Where things lie when both hosts are IPv4; each IPv6 host moves what follows it by 12 bytes.
_CRC_AT, _FLAG_AT, _QUEUE_OFFSET_AT, _LOG_OFFSET_AT, _SYS_FLAG_AT, _BORN_AT, _BORN_HOST_AT = 8, 16, 20, 28, 36, 40, 48
_V6_EXTRA = ids.IPV6_HOST_BYTES - ids.IPV4_HOST_BYTES
_BODY_AT = 88
_SIZE_MIN = _BODY_AT + 3  # no body, a topic of length 0, no properties

# size, magic, queue offset, sysFlag, body length of an IPv4 record: all that `decode` must look at.
_GLANCE = Struct(">ii12xq8xi44xi")
_CHECKSUM = Struct(">i24xi44xi")  # from the crc on: crc, sysFlag, body length
_checksum_from = _CHECKSUM.unpack_from  # looked up once: each body that is read asks for it
_TAG = f"{TAGS}{properties.NAME_END}".encode()
_TAG_AFTER_A_PAIR = f"{properties.PAIR_END}{TAGS}{properties.NAME_END}".encode()
_INT = Struct(">i")
_LONG = Struct(">q")
_SHORT = Struct(">h")
_UNSIGNED_SHORT = Struct(">H")


def decode(body: bytes, queue: MessageQueue, *, offset_delta: int = 0) -> list[Message]:
    """The messages of a pull, lazy: each is a place in `body`, which they keep alive together.

    `queue` is the one that was asked for: records carry no broker, and on a static topic another number.
    `offset_delta` comes with the pull's answer. RecordDamaged names the queue and the offset; no message is handed out.
    """
    records = Records(body, queue)
    messages: list[Message] = []
    append, new, glance = messages.append, object.__new__, _GLANCE.unpack_from
    at, end = 0, len(body)
    try:
        while at < end:
            size, magic, offset, sys_flag, body_size = glance(body, at)
            following = at + size
            if sys_flag & _UNCOMMON:
                following = _uncommon(records, at, offset + offset_delta, messages)
            elif (
                following > end
                or (magic != MAGIC_V1 and magic != MAGIC_V2)  # noqa: PLR1714  # a tuple is slower here
                or body_size < 0
                or _SIZE_MIN + body_size > size
            ):
                _refuse(records, at)
            else:
                message = new(Message)
                message._source = records  # noqa: SLF001  # here, and in `_message`, pulled messages are made
                message._at = at  # noqa: SLF001
                message._body = message._properties = None  # noqa: SLF001
                message.queue_offset = offset + offset_delta
                append(message)
            at = following
    except struct.error as error:
        raise RecordDamaged(f"{queue}: record at byte {at}: {end - at} bytes are too few for a record") from error
    return messages


def _refuse(records: Records, at: int) -> NoReturn:
    raise records.damage(at) or AssertionError("refused a record that is sound")


def _uncommon(records: Records, at: int, offset: int, messages: list[Message]) -> int:
    """A record with an IPv6 host, or an inner batch; answers where the next record begins."""
    damage = records.damage(at)
    if damage is not None:
        raise damage
    if records.sys_flag(at) & INNER_BATCH == INNER_BATCH:
        inner = take_apart(records, at)
        if inner is not None:
            messages += [_message(inner, place, offset + index) for index, place in enumerate(inner.places)]
            return at + records.size(at)
    messages.append(_message(records, at, offset))
    return at + records.size(at)


def _message(source: Records | InnerRecords, at: int, offset: int) -> Message:
    message = object.__new__(Message)
    message._source = source
    message._at = at
    message._body = message._properties = None
    message.queue_offset = offset
    return message


class Records:
    """The source behind a pull's messages. `at` is where a record begins that `decode` has looked at."""

    __slots__ = ("_is_retry", "buffer", "queue")

    def __init__(self, buffer: bytes, queue: MessageQueue) -> None:
        self.buffer = buffer
        self.queue = queue
        self._is_retry = queue.topic.startswith(RETRY_PREFIX)

    def damage(self, at: int) -> RecordDamaged | None:
        """What is wrong with the lengths at the beginning of a record, as far as the body."""
        left = len(self.buffer) - at
        size, magic = self.size(at), _INT.unpack_from(self.buffer, at + 4)[0]
        if not _SIZE_MIN <= size <= left:
            return self._damaged(at, f"says {size} bytes, of {left} that are left")
        if magic not in {MAGIC_V1, MAGIC_V2}:
            return self._damaged(at, f"magic number 0x{magic & 0xFFFF_FFFF:08X}")
        shift = self._shift(self.sys_flag(at))
        if _SIZE_MIN + shift > size:
            return self._damaged(at, f"{size} bytes are too few for its IPv6 hosts")
        (body_size,) = _INT.unpack_from(self.buffer, at + _BODY_AT - 4 + shift)
        if not 0 <= body_size <= size - _SIZE_MIN - shift:
            return self._damaged(at, f"body of {body_size} bytes in a record of {size}")
        return None

    def _damaged(self, at: int, what: str) -> RecordDamaged:
        (offset,) = _LONG.unpack_from(self.buffer, at + _QUEUE_OFFSET_AT)
        return RecordDamaged(f"{self.queue}: record at byte {at}, queue offset {offset}: {what}")

    # What messages ask

    def body(self, at: int) -> bytes:
        """The body as the producer gave it; its checksum is of the stored bytes, so it is checked before opening."""
        buffer = self.buffer
        checksum, sys_flag, size = _checksum_from(buffer, at + _CRC_AT)
        if not sys_flag & _SELDOM:
            begin = at + _BODY_AT
            body = buffer[begin : begin + size]
            if crc32(body) & 0x7FFF_FFFF == checksum:
                return body
        body, sys_flag = self.stored_body(at)
        if sys_flag & compression.COMPRESSED:
            body = compression.decompress(body, sys_flag)
        if sys_flag & INNER_BATCH == INNER_BATCH:
            places_of(body)  # it could not be taken apart when it was pulled; this says why
        return body

    def stored_body(self, at: int) -> tuple[bytes, int]:
        """The body as it is stored, its checksum verified, and sysFlag, which says how to open it."""
        checksum, sys_flag, size = _CHECKSUM.unpack_from(self.buffer, at + _CRC_AT)
        start = at + _BODY_AT
        if sys_flag & (BORN_HOST_V6 | STORE_HOST_V6):
            start += self._shift(sys_flag)
            (size,) = _INT.unpack_from(self.buffer, start - 4)
        body = self.buffer[start : start + size]
        actual = crc32(body) & 0x7FFF_FFFF
        if actual != checksum:
            raise self._damaged(at, f"body's checksum is {actual}, not {checksum} as stored")
        return body, sys_flag

    def properties(self, at: int) -> dict[str, str]:
        _, _, start, end = self._tail(at)
        return properties.decode_stored(self.buffer[start:end])

    def tag(self, at: int) -> str | None:
        """The TAGS property alone, a third of the price of all: what filtering asks of each message."""
        _, _, start, end = self._tail(at)
        mark = self.buffer.rfind(_TAG_AFTER_A_PAIR, start, end)
        if mark >= 0:
            start = mark + 1
        elif not self.buffer.startswith(_TAG, start, end):
            return None
        start += len(_TAG)
        stop = self.buffer.find(b"\x02", start, end)
        tag = self.buffer[start : end if stop < 0 else stop].decode("utf-8", "replace")
        return tag or self.properties(at).get(TAGS)

    def topic(self, at: int) -> str:
        """The record's own topic; of a message that came back for a retry, the one it was first sent to."""
        if self._is_retry:
            origin = self.properties(at).get(RETRY_TOPIC)
            if origin is not None and is_legal(origin):
                return origin
        return self.own_topic(at)

    def own_topic(self, at: int) -> str:
        """The topic that the record was stored under."""
        start, end, _, _ = self._tail(at)
        try:
            return self.buffer[start:end].decode()
        except UnicodeDecodeError as error:
            raise self._damaged(at, f"topic {shorten(self.buffer[start:end])} is not UTF-8") from error

    def _tail(self, at: int) -> tuple[int, int, int, int]:
        """Beginning and end of topic and properties, held against the record's end."""
        buffer = self.buffer
        size, magic, _, sys_flag, body_size = _GLANCE.unpack_from(buffer, at)
        end = at + size
        topic_at = at + _BODY_AT + body_size
        if sys_flag & (BORN_HOST_V6 | STORE_HOST_V6):
            shift = self._shift(sys_flag)
            topic_at = at + _BODY_AT + shift + _INT.unpack_from(buffer, at + _BODY_AT - 4 + shift)[0]
        if magic == MAGIC_V1:
            topic_size = buffer[topic_at]
            topic_at += 1
        else:
            (topic_size,) = _UNSIGNED_SHORT.unpack_from(buffer, topic_at)
            topic_at += 2
        properties_at = topic_at + topic_size + 2
        if properties_at > end:
            raise self._damaged(at, f"topic of {topic_size} bytes, and {max(end - topic_at, 0)} are left")
        (properties_size,) = _SHORT.unpack_from(buffer, properties_at - 2)
        properties_end = properties_at + properties_size
        if properties_end > end or properties_size < 0:
            raise self._damaged(at, f"properties of {properties_size} bytes, and {end - properties_at} are left")
        return topic_at, topic_at + topic_size, properties_at, properties_end

    def reconsume_times(self, at: int) -> int:
        return self._int(at + 72 + self._shift(self.sys_flag(at)))

    def born_ms(self, at: int) -> int:
        return self._long(at + _BORN_AT)

    def stored_ms(self, at: int) -> int:
        return self._long(at + _BORN_HOST_AT + self._born_host_size(at))

    def flag(self, at: int) -> int:
        return self._int(at + _FLAG_AT)

    def commit_log_offset(self, at: int) -> int:
        return self._long(at + _LOG_OFFSET_AT)

    def offset_message_id(self, at: int) -> str:
        return ids.offset_message_id(self.store_host(at), self.commit_log_offset(at))

    # What others ask: tools, relays, tests

    def raw(self, at: int) -> bytes:
        """The whole record as it is stored."""
        return self.buffer[at : at + self.size(at)]

    def born_host(self, at: int) -> bytes:
        """Address and port, 8 or 20 bytes (`ids.unpack_host`)."""
        return self.buffer[at + _BORN_HOST_AT : at + _BORN_HOST_AT + self._born_host_size(at)]

    def store_host(self, at: int) -> bytes:
        start = at + _BORN_HOST_AT + self._born_host_size(at) + 8
        return self.buffer[start : start + _host_size(self.sys_flag(at) & STORE_HOST_V6)]

    def sys_flag(self, at: int) -> int:
        return self._int(at + _SYS_FLAG_AT)

    def size(self, at: int) -> int:
        return self._int(at)

    def _born_host_size(self, at: int) -> int:
        return _host_size(self.sys_flag(at) & BORN_HOST_V6)

    @staticmethod
    def _shift(sys_flag: int) -> int:
        """By how much IPv6 hosts move what follows them."""
        return ((sys_flag & BORN_HOST_V6) // BORN_HOST_V6 + (sys_flag & STORE_HOST_V6) // STORE_HOST_V6) * _V6_EXTRA

    def _int(self, at: int) -> int:
        return int(_INT.unpack_from(self.buffer, at)[0])

    def _long(self, at: int) -> int:
        return int(_LONG.unpack_from(self.buffer, at)[0])

    def __repr__(self) -> str:
        return f"<Records {self.queue} {len(self.buffer)}B>"


# The plain way, for whoever writes records or wants every field at once: brokers, tools, tests.

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
        raise ConfigurationError(f"properties of {len(texts)} bytes exceed the {properties.BYTES_MAX} of a message")
    is_long = len(topic) > V1_TOPIC_BYTES_MAX
    if len(topic) > 0x7FFF:
        raise ConfigurationError(f"topic {shorten(record.topic)} of {len(topic)} bytes does not fit a record")
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
        cursor = _Cursor(data, at)
        records.append(_read_record(cursor))
        at = cursor.end
    return records


class _Cursor:
    """Reads on within one record, and never past its end."""

    __slots__ = ("_at", "_data", "_start", "end")

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self._start, self._at = data, at, at
        self.end = len(data)
        size = self.number(4)
        if not _SIZE_MIN <= size <= len(data) - at:
            raise self.damaged(f"size {size} of {len(data) - at}")
        self.end = at + size

    def take(self, count: int) -> bytes:
        start = self._at
        if not 0 <= count <= self.end - start:
            raise self.damaged(f"{count} bytes at {start - self._start}, and {self.end - start} are left")
        self._at += count
        return self._data[start : self._at]

    def number(self, count: int, *, signed: bool = True) -> int:
        return int.from_bytes(self.take(count), signed=signed)

    def damaged(self, what: str) -> RecordDamaged:
        return RecordDamaged(f"record at byte {self._start}: {what}")


def _read_record(cursor: _Cursor) -> Record:
    magic = cursor.number(4)
    if magic not in {MAGIC_V1, MAGIC_V2}:
        raise cursor.damaged(f"magic number {magic}")
    checksum, queue_id, flag = cursor.number(4), cursor.number(4), cursor.number(4)
    queue_offset, commit_log_offset = cursor.number(8), cursor.number(8)
    sys_flag, born_ms = cursor.number(4), cursor.number(8)
    born_host = cursor.take(_host_size(sys_flag & BORN_HOST_V6))
    stored_ms = cursor.number(8)
    store_host = cursor.take(_host_size(sys_flag & STORE_HOST_V6))
    reconsume_times, prepared = cursor.number(4), cursor.number(8)
    body = cursor.take(cursor.number(4))
    if crc32(body) & 0x7FFF_FFFF != checksum:
        raise cursor.damaged(f"checksum {checksum}")
    topic = cursor.take(cursor.number(1 if magic == MAGIC_V1 else 2, signed=False))
    texts = cursor.take(cursor.number(2))
    try:
        name = topic.decode()
    except UnicodeDecodeError as error:
        raise cursor.damaged(f"topic {shorten(topic)}") from error
    return Record(
        topic=name, body=body, properties=properties.decode_stored(texts), queue_id=queue_id, flag=flag,
        queue_offset=queue_offset, commit_log_offset=commit_log_offset, sys_flag=sys_flag, born_ms=born_ms,
        born_host=born_host, stored_ms=stored_ms, store_host=store_host, reconsume_times=reconsume_times,
        prepared_transaction_offset=prepared,
    )  # fmt: skip


def _host_size(is_v6: int) -> int:
    return ids.IPV6_HOST_BYTES if is_v6 else ids.IPV4_HOST_BYTES
