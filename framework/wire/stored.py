"""Messages as a commit log stores them: the body of a pull's answer, one record after the other.

    0  size        16  flag                 40  born ms
    4  magic       20  queue offset         48  born host (8 bytes, or 20 with bit 4 of sysFlag)
    8  body crc    28  commit-log offset    ..  stored ms | store host (8, or 20 with bit 5) | reconsume times
    12 queue id    36  sysFlag              ..  prepared transaction offset | body length | body
                                            ..  topic length (1 byte; 2 in V2) | topic | properties length | properties

`decode` notes where each record lies, and keeps small bodies, which it cuts out anyway: it is the one piece of the wire
that each message pays for. All that can be wrong with a record is found there, before the first message is handed out:
a damage that came up when a handler first reads would be taken for the handler's failure. So reading is plain cutting.
`decode_records` reads the same bytes plainly; the two are tested against each other.
"""

from __future__ import annotations

import struct
from itertools import repeat
from struct import Struct

from framework.errors import RecordDamaged, shorten
from framework.model.message import RETRY_TOPIC, TAGS, Message
from framework.model.queue import MessageQueue
from framework.model.reserved import RETRY_PREFIX, is_legal
from framework.wire import batch, compression, ids, properties
from framework.wire.inner_batch import InnerRecords, places_of, take_apart
from framework.wire.record import (
    BORN_HOST_V6,
    MAGIC_V1,
    MAGIC_V2,
    SIZE_MIN,
    STORE_HOST_V6,
    Record,
    crc32,
    decode_records,
    encode_record,
    host_size,
    mark_of,
)

__all__ = [
    "BORN_HOST_V6", "INNER_BATCH", "MAGIC_V1", "MAGIC_V2", "STORE_HOST_V6", "Record", "Records", "begins_with_batch",
    "decode", "decode_records", "encode_record", "end_of",
]  # fmt: skip

INNER_BATCH = 0xC0  # both bits: stored whole, and to be taken apart by the consumer
_SLOW_PATH = BORN_HOST_V6 | STORE_HOST_V6 | INNER_BATCH  # records with these flags are decoded one by one
_NOT_PLAIN = _SLOW_PATH | compression.COMPRESSED

# Where things lie when both hosts are IPv4; each IPv6 host moves what follows it by 12 bytes.
_CRC_AT, _FLAG_AT, _QUEUE_OFFSET_AT, _LOG_OFFSET_AT, _SYS_FLAG_AT, _BORN_AT, _BORN_HOST_AT = 8, 16, 20, 28, 36, 40, 48
_V6_EXTRA = ids.IPV6_HOST_BYTES - ids.IPV4_HOST_BYTES
_BODY_AT = 88

# size, magic, crc, queue offset, sysFlag, body length of an IPv4 record: all of its head that can be wrong.
_GLANCE = Struct(">iii8xq8xi44xi")
_CHECKSUM = Struct(">i24xi44xi")  # from the crc on: crc, sysFlag, body length
_FLAG_AND_SIZE = Struct(">i44xi")  # from sysFlag on
_flag_and_size = _FLAG_AND_SIZE.unpack_from  # looked up once: each body that is read asks for it
_TAG = f"{TAGS}{properties.NAME_END}".encode()
_TAG_AFTER_A_PAIR = f"{properties.PAIR_END}{TAGS}{properties.NAME_END}".encode()
_INT = Struct(">i")
_LONG = Struct(">q")
_UNSIGNED_SHORT = Struct(">H")
_PACKED = compression.COMPRESSED
_BODY_KEPT_MAX = 1024  # it was cut out for its checksum: a small one is kept, since most handlers read it
_ALIKE_MIN = 4  # fewer records do not pay for putting their common shape together
_ANY_OFFSET = -(2**63)
_LIGHT = "%LMQ%"  # a light queue shows records of its parent's topic


def decode(
    body: bytes, queue: MessageQueue, *, offset_delta: int = 0, begin: int | None = None, most: int | None = None,
    origin: str = "",
) -> list[Message]:  # fmt: skip
    """The messages of a pull, lazy: each is a place in `body`, which they keep alive together.

    `queue` is the one that was asked for: records carry no broker, and on a static topic another number.
    `offset_delta` comes with the pull's answer. Where it is said from which offset on was asked (`begin`), no offset
    may lie below it, each must be above the one before, and the topic be the queue's. What follows the first `most`
    records is not looked at (`end_of` says where it begins). `origin`: the topic that messages of this retry topic were
    sent to, where no property names it. RecordDamaged names the queue and the offset; no message is handed out.
    """
    records = Records(body, queue, origin)
    must_match = records.must_match = begin is not None
    least = _ANY_OFFSET if begin is None else begin
    messages: list[Message] = []
    append, new, glance = messages.append, object.__new__, _GLANCE.unpack_from
    mark, tail_size = records.mark, len(records.mark) + 2
    rest, tail = -1, None
    at, end = 0, len(body)
    try:
        if _may_be_alike(body, most):
            at = _alike(records, offset_delta, least, messages)
            if messages and must_match:
                least = messages[-1].queue_offset + 1
        for _ in repeat(None) if most is None else repeat(None, most - len(messages)):
            if at >= end:
                break
            size, magic, checksum, offset, sys_flag, body_size = glance(body, at)
            offset += offset_delta
            body_at = at + _BODY_AT
            topic_at = body_at + body_size
            if size - body_size != rest:
                rest = size - body_size
                tail = _tail_of(mark, rest)
            following = at + size
            if (
                sys_flag & _SLOW_PATH
                or magic != MAGIC_V1
                or following > end
                or body_size < 0
                or offset < least
                or body[topic_at : topic_at + tail_size] != tail
                or crc32(content := body[body_at:topic_at]) & 0x7FFF_FFFF != checksum
            ):
                _slow_path(records, at, offset, least, messages)
                following = at + records.size(at)
                offset = messages[-1].queue_offset
                if len(messages) > batch.PARTS_MAX:
                    at = following
                    break
            else:
                message = new(Message)
                message._source = records  # noqa: SLF001  # here, in `_alike` and `_message`, pulled ones are made
                message._at = at  # noqa: SLF001
                message._body = None if body_size > _BODY_KEPT_MAX or sys_flag & _PACKED else content  # noqa: SLF001
                message._properties = None  # noqa: SLF001
                message.queue_offset = offset
                append(message)
            at = following
            if must_match:
                least = offset + 1
    except (struct.error, IndexError) as error:
        raise RecordDamaged(f"{queue}: record at byte {at}: {end - at} bytes are too few for a record") from error
    records.end = at
    return messages


def _may_be_alike(body: bytes, most: int | None) -> bool:
    """Whether these are several records that may all have the size of the first: such can be checked for less."""
    size = _INT.unpack_from(body)[0] if len(body) >= SIZE_MIN else 0
    if size < SIZE_MIN or len(body) % size:
        return False
    count = len(body) // size
    return count >= _ALIKE_MIN and (most is None or count <= most)


def _alike(records: Records, offset_delta: int, least: int, messages: list[Message]) -> int:
    """Take common records that have every length of the first one; answers where the first that has not begins.

    One call cuts such a record into all that is looked at. What is refused here, `decode` judges.
    """
    body, append, new, must_match = records.buffer, messages.append, object.__new__, records.must_match
    size, magic, _, _, flag, body_size = _GLANCE.unpack_from(body)
    tail = _tail_of(records.mark, size - body_size)
    if tail is None or flag & _SLOW_PATH or magic != MAGIC_V1 or body_size < 0:
        return 0
    rest = size - _BODY_AT - body_size - len(tail)
    is_kept = body_size <= _BODY_KEPT_MAX and not flag & _PACKED
    (head,) = _LONG.unpack_from(body)
    at = 0
    # size and magic, crc, queue offset, sysFlag, body length, body, what is between it and the properties
    shape = f">qi8xq8xi44xi{body_size}s{len(tail)}s{rest}x"
    for this, checksum, offset, sys_flag, length, content, behind in struct.iter_unpack(shape, body):
        offset += offset_delta  # noqa: PLW2901  # one name less to store, a record
        if (
            this != head
            or length != body_size
            or sys_flag != flag
            or offset < least
            or behind != tail
            or crc32(content) & 0x7FFF_FFFF != checksum
        ):
            break
        message = new(Message)
        message._source = records  # noqa: SLF001
        message._at = at  # noqa: SLF001
        message._body = content if is_kept else None  # noqa: SLF001
        message._properties = None  # noqa: SLF001
        message.queue_offset = offset
        append(message)
        at += size
        if must_match:
            least = offset + 1
    return at


def _tail_of(mark: bytes, rest: int) -> bytes | None:
    """What follows the body of a common record that has `rest` bytes beside it: its topic, its properties' length.

    None where they do not fit. An empty text would equal what a record that ends early has there.
    """
    size = rest - _BODY_AT - len(mark) - 2
    return mark + _UNSIGNED_SHORT.pack(size) if 0 <= size <= 0xFFFF else None


def _slow_path(records: Records, at: int, offset: int, least: int, messages: list[Message]) -> None:
    """A record with an IPv6 host, a long topic, or an inner batch; or one that is damaged."""
    damage = records.damage(at)
    if damage is not None:
        raise damage
    is_batch = records.sys_flag(at) & INNER_BATCH == INNER_BATCH
    inner = take_apart(records, at) if is_batch else None
    if inner is not None:
        # It is stored as one record: a pull from its middle brings the messages before it, too.
        parts = [_message(inner, place, offset + index) for index, place in enumerate(inner.places)]
        parts = parts[max(least - offset, 0) :]
    else:
        parts = [_message(records, at, max(offset, least) if is_batch else offset)]
    if not parts or parts[0].queue_offset < least:
        raise records.damaged(at, f"offset {offset}, and the next one is {least} at least")
    messages += parts


def end_of(messages: list[Message]) -> int:
    """Where in the pull's body the records end that `decode` has looked at."""
    source = messages[-1]._source  # noqa: SLF001  # it was made here
    return (source if type(source) is Records else source.outer).end  # type: ignore[attr-defined]


def properties_size(records: Records, at: int) -> int:
    """How many bytes the properties of a record have."""
    _, _, start, end = records._tail(at)  # noqa: SLF001  # as above
    return end - start


def begins_with_batch(body: bytes) -> bool:
    """Whether a pull's first record calls itself an inner batch, as far as one that is damaged can be read."""
    return len(body) >= SIZE_MIN and _INT.unpack_from(body, _SYS_FLAG_AT)[0] & INNER_BATCH == INNER_BATCH


def _message(source: Records | InnerRecords, at: int, offset: int) -> Message:
    message = object.__new__(Message)
    message._source = source
    message._at = at
    message._body = message._properties = None
    message.queue_offset = offset
    return message


class Records:
    """The source behind a pull's messages. `at` is where a record begins that `decode` has looked at."""

    __slots__ = ("_lacks", "buffer", "end", "mark", "must_match", "origin", "queue", "unsurrounded")

    def __init__(self, buffer: bytes, queue: MessageQueue, origin: str = "") -> None:
        self.buffer = buffer
        self.queue = queue
        self.origin = origin
        self.mark = mark_of(queue.topic)
        """What stands behind the body of a common record: its topic, and the length of that."""
        self.end = len(buffer)
        """Where the records end that were looked at."""
        self.must_match = False
        """They answer a question for this queue, so that their topic must be its own."""
        self._lacks: dict[str, bool] | None = None
        self.unsurrounded = 0

    def damage(self, at: int) -> RecordDamaged | None:
        """What is wrong with a record, if anything is: its lengths, its topic, or its body's checksum."""
        try:
            found = _false_length(self, at)
            if found is not None:
                return self.damaged(at, found)
            topic_at, topic_end, _, end = self._tail(at)
            topic = self.buffer[topic_at:topic_end]
            topic.decode()
            if end != at + self.size(at):
                return self.damaged(at, f"{at + self.size(at) - end} bytes follow its properties")
            if self.must_match and topic != self.mark[1:] and not self.queue.topic.startswith(_LIGHT):
                return self.damaged(at, f"its topic is {shorten(topic)}")
            self.stored_body(at)
        except RecordDamaged as damage:
            return damage
        except UnicodeDecodeError:
            return self.damaged(at, f"topic {shorten(topic)} is not UTF-8")
        return None

    def damaged(self, at: int, what: str) -> RecordDamaged:
        (offset,) = _LONG.unpack_from(self.buffer, at + _QUEUE_OFFSET_AT)
        return RecordDamaged(f"{self.queue}: record at byte {at}, queue offset {offset}: {what}")

    # What messages ask

    def body(self, at: int) -> bytes:
        """The body as the producer gave it. `decode` has checked its checksum, which is of the stored bytes."""
        sys_flag, size = _flag_and_size(self.buffer, at + _SYS_FLAG_AT)
        if not sys_flag & _NOT_PLAIN:
            begin = at + _BODY_AT
            return self.buffer[begin : begin + size]
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
            start += _shift(sys_flag)
            (size,) = _INT.unpack_from(self.buffer, start - 4)
        body = self.buffer[start : start + size]
        actual = crc32(body) & 0x7FFF_FFFF
        if actual != checksum:
            raise self.damaged(at, f"body's checksum is {actual}, not {checksum} as stored")
        return body, sys_flag

    def properties(self, at: int) -> dict[str, str]:
        _, _, start, end = self._tail(at)
        return properties.decode_stored(self.buffer[start:end])

    def lacks(self, name: str) -> bool:
        """Whether no record has a property of this name: one search through all of them."""
        if self._lacks is None:
            self._lacks = {}
        lacks = self._lacks.get(name)
        if lacks is None:
            # What was no UTF-8 is read as U+FFFD, and is not to be found.
            mark = f"{name}{properties.NAME_END}".encode(errors="replace")
            lacks = self._lacks[name] = mark not in self.buffer and "\ufffd" not in name
        return lacks

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
        if self.queue.topic.startswith(RETRY_PREFIX):
            origin = self.properties(at).get(RETRY_TOPIC)
            if origin is not None and is_legal(origin):
                return origin
            return self.origin or self.own_topic(at)
        return self.own_topic(at)

    def own_topic(self, at: int) -> str:
        """The topic that the record was stored under."""
        start, end, _, _ = self._tail(at)
        return self.buffer[start:end].decode()

    def _tail(self, at: int) -> tuple[int, int, int, int]:
        """Beginning and end of topic and properties, held against the record's end."""
        buffer = self.buffer
        size, magic, _, _, sys_flag, body_size = _GLANCE.unpack_from(buffer, at)
        end = at + size
        topic_at = at + _BODY_AT + body_size
        if sys_flag & (BORN_HOST_V6 | STORE_HOST_V6):
            shift = _shift(sys_flag)
            topic_at = at + _BODY_AT + shift + _INT.unpack_from(buffer, at + _BODY_AT - 4 + shift)[0]
        if magic == MAGIC_V1:
            topic_size = buffer[topic_at]
            topic_at += 1
        else:
            (topic_size,) = _UNSIGNED_SHORT.unpack_from(buffer, topic_at)
            topic_at += 2
        properties_at = topic_at + topic_size + 2
        if properties_at > end:
            raise self.damaged(at, f"topic of {topic_size} bytes, and {max(end - topic_at, 0)} are left")
        (properties_size,) = _UNSIGNED_SHORT.unpack_from(buffer, properties_at - 2)
        properties_end = properties_at + properties_size
        if properties_end > end:
            raise self.damaged(at, f"properties of {properties_size} bytes, and {end - properties_at} are left")
        return topic_at, topic_at + topic_size, properties_at, properties_end

    def reconsume_times(self, at: int) -> int:
        return _int(self.buffer, at + 72 + _shift(self.sys_flag(at)))

    def born_ms(self, at: int) -> int:
        return _long(self.buffer, at + _BORN_AT)

    def stored_ms(self, at: int) -> int:
        return _long(self.buffer, at + _BORN_HOST_AT + self._born_host_size(at))

    def flag(self, at: int) -> int:
        return _int(self.buffer, at + _FLAG_AT)

    def commit_log_offset(self, at: int) -> int:
        return _long(self.buffer, at + _LOG_OFFSET_AT)

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
        return self.buffer[start : start + host_size(self.sys_flag(at) & STORE_HOST_V6)]

    def sys_flag(self, at: int) -> int:
        return _int(self.buffer, at + _SYS_FLAG_AT)

    def size(self, at: int) -> int:
        return _int(self.buffer, at)

    def _born_host_size(self, at: int) -> int:
        return host_size(self.sys_flag(at) & BORN_HOST_V6)

    def __repr__(self) -> str:
        return f"<Records {self.queue} {len(self.buffer)}B>"


def _int(buffer: bytes, at: int) -> int:
    return int(_INT.unpack_from(buffer, at)[0])


def _long(buffer: bytes, at: int) -> int:
    return int(_LONG.unpack_from(buffer, at)[0])


def _false_length(records: Records, at: int) -> str | None:
    """What is wrong with the lengths at the beginning of a record, as far as the body."""
    remaining = len(records.buffer) - at
    size, magic = records.size(at), _INT.unpack_from(records.buffer, at + 4)[0]
    if not SIZE_MIN <= size <= remaining:
        return f"says {size} bytes, of {remaining} that are left"
    if magic not in {MAGIC_V1, MAGIC_V2}:
        return f"magic number 0x{magic & 0xFFFF_FFFF:08X}"
    shift = _shift(records.sys_flag(at))
    if SIZE_MIN + shift > size:
        return f"{size} bytes are too few for its IPv6 hosts"
    (body_size,) = _INT.unpack_from(records.buffer, at + _BODY_AT - 4 + shift)
    if not 0 <= body_size <= size - SIZE_MIN - shift:
        return f"body of {body_size} bytes in a record of {size}"
    return None


def _shift(sys_flag: int) -> int:
    """By how much IPv6 hosts move what follows them."""
    return ((sys_flag & BORN_HOST_V6) // BORN_HOST_V6 + (sys_flag & STORE_HOST_V6) // STORE_HOST_V6) * _V6_EXTRA
