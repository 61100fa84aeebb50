"""The client's batch body: several messages of one topic in one send.

    { int32 size | int32 magic 0 | int32 crc 0 | int32 flag
    | int32 body length | body | int16 properties length | properties }

A broker takes it apart, or (batch consume queues) stores it whole as an *inner batch*, which the consumer takes apart.
Owns this layout. It knows neither compression nor queues.
"""

from __future__ import annotations

from struct import Struct

from framework.errors import ProtocolError
from framework.wire import properties as texts

PARTS_MAX = (
    65_536  # far above any batch that fits 4 MiB with bodies in it; bounds what a hostile body can make us build
)

_HEAD = Struct(">i8xii")  # size, flag, body length
_WRITTEN = Struct(">iiiii")
_SHORT = Struct(">h")
BODY_AT = _HEAD.size
_SIZE_MIN = BODY_AT + _SHORT.size


def written(body: bytes, text: str, flag: int = 0) -> bytes:
    """One message with its properties as `properties.encode` wrote them."""
    properties = text.encode()
    length = len(body)
    head = _WRITTEN.pack(_SIZE_MIN + length + len(properties), 0, 0, flag, length)
    return b"".join((head, body, _SHORT.pack(len(properties)), properties))


def cut_at(data: bytes, at: int) -> tuple[bytes, bytes, int]:
    """One message at a position that `positions` answered: its body, its properties as they were written, its flag."""
    _, flag, body_size = _HEAD.unpack_from(data, at)
    body_at = at + BODY_AT
    properties_at = body_at + body_size + _SHORT.size
    (size,) = _SHORT.unpack_from(data, properties_at - _SHORT.size)
    return data[body_at : body_at + body_size], data[properties_at : properties_at + size], flag


def positions(data: bytes) -> list[int]:
    """Where each message begins; every length has been held against what is there."""
    found: list[int] = []
    at, end = 0, len(data)
    while at < end:
        if at + _SIZE_MIN > end:
            raise ProtocolError(f"batch: {end - at} bytes after message {len(found)} are too few for another")
        size, _, body_size = _HEAD.unpack_from(data, at)
        if not _SIZE_MIN <= size <= end - at:
            raise ProtocolError(f"batch: message {len(found) + 1} says {size} bytes, of {end - at} that are left")
        if not 0 <= body_size <= size - _SIZE_MIN:
            raise ProtocolError(f"batch: message {len(found) + 1} of {size} bytes has a body of {body_size}")
        (properties_size,) = _SHORT.unpack_from(data, at + BODY_AT + body_size)
        if not 0 <= properties_size <= size - _SIZE_MIN - body_size:
            raise ProtocolError(f"batch: message {len(found) + 1} of {size} bytes has properties of {properties_size}")
        if len(found) == PARTS_MAX:
            raise ProtocolError(f"batch: more than {PARTS_MAX} messages")
        found.append(at)
        at += size
    return found


def body_at(data: bytes, at: int) -> bytes:
    """The body of the message at a position that `positions` answered; so are the other two."""
    _, _, size = _HEAD.unpack_from(data, at)
    return data[at + BODY_AT : at + BODY_AT + size]


def properties_at(data: bytes, at: int) -> dict[str, str]:
    _, _, body_size = _HEAD.unpack_from(data, at)
    start = at + _SIZE_MIN + body_size
    (size,) = _SHORT.unpack_from(data, start - _SHORT.size)
    return texts.decode_stored(data[start : start + size])


def flag_at(data: bytes, at: int) -> int:
    _, flag, _ = _HEAD.unpack_from(data, at)
    return int(flag)
