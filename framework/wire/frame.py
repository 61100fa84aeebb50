"""The frame: a length, a header encoding with the header's length, a header, a body.

    int32 length of all that follows | int8 header encoding | int24 header length | header | body

Owns these eight bytes: their limits, and what they tell about a peer that does not speak RocketMQ at all. It knows the
header encodings only by number. A peer may mix encodings from frame to frame, so both are read at all times.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from struct import Struct

from framework.errors import ProtocolError, shorten
from framework.mistakes import MessageWrong
from framework.wire import batch, header_compact, header_json
from framework.wire.codes import request_name
from framework.wire.command import RemotingCommand

FRAME_BYTES_MAX = 16 * 1024 * 1024  # RocketMQ's com.rocketmq.remoting.frameMaxLength
HEADER_BYTES_MAX = 64 * 1024  # twice the 32 KiB of properties that a send may carry in its header
# Of an answer: one to a batch names each of its messages, and an id of a broker with an IPv6 address is the longest.
ANSWER_HEADER_BYTES_MAX = HEADER_BYTES_MAX + batch.PARTS_MAX * 57
PREFIX_BYTES = 8  # both lengths; nothing can be judged about a header before these are there

JSON = 0
COMPACT = 1

_PREFIX = Struct(">II").pack
_HEADER_LENGTH_MAX = 0xFF_FFFF


def encode(command: RemotingCommand, *, binary: bool = False) -> bytes:
    """The whole frame, its length in front."""
    header, body = header_compact.encode(command) if binary else header_json.encode(command), command.body
    size = len(header)
    if size > _HEADER_LENGTH_MAX:
        name = request_name(command.code)
        raise MessageWrong(f"{name}: header of {size} bytes exceeds the {_HEADER_LENGTH_MAX} that a frame can express")
    encoding = COMPACT << 24 if binary else JSON
    return b"".join((_PREFIX(4 + size + len(body), encoding | size), header, body))


def open_header(encoding: int, header: bytes, body: bytes) -> RemotingCommand:
    """The command, by the header encoding that the frame names (checked before)."""
    if encoding == JSON:
        return header_json.decode(header, body)
    return header_compact.decode(header, body)


def check_length(length: int, frame_bytes_max: int, start: bytes, *, times: int = 1) -> None:
    """Refuse a frame's length that is beyond so many times the limit.

    `start` is how the frame begins, to tell which other protocol this is.
    """
    if length > frame_bytes_max * times:
        raise ProtocolError(_stranger(start) or beyond("frame", length, frame_bytes_max))
    if length < 4:
        raise ProtocolError(f"frame of {length} bytes is too short for a header length")


def check_header(word: int, length: int, header_bytes_max: int, *, times: int = 1) -> int:
    """The header's length out of the frame's second word; ProtocolError beyond so many times the limit."""
    size = word & _HEADER_LENGTH_MAX
    if word >> 24 > COMPACT:
        raise ProtocolError(f"unknown header encoding {word >> 24}")
    if size == 0 or size > length - 4:
        raise ProtocolError(f"bad header length {size} in a frame of {length} bytes")
    if size > header_bytes_max * times:
        raise ProtocolError(beyond("header", size, header_bytes_max))
    return size


def beyond(what: str, size: int, limit: int) -> str:
    """The words for what is too large."""
    return f"{what} of {size} bytes exceeds the limit of {limit}"


# How other protocols begin. Read as a length, each of them is far above any limit, so none can be a frame of ours.
_STRANGERS = (
    (re.compile(rb"[\x14-\x17]\x03[\x00-\x04]"), "TLS"),
    (re.compile(rb"HTTP|GET |POST|PUT |HEAD|DELE|OPTI|PATC|CONN|TRAC|PRI "), "HTTP"),
    (re.compile(rb"SSH-"), "SSH"),
    (re.compile(rb"[*$:]-?[0-9]|\+OK|\+PO|-ERR|PING|INFO|AUTH"), "Redis"),
    (re.compile(rb"PROX|\r\n\r\n"), "the PROXY protocol"),
)

# Both ends say it: an application that dialled a TLS port, and the built-in broker that a client with TLS has dialled.
_SPEAKS_TLS = (
    "peer speaks TLS and this end does not; in an application set cluster.tls.enabled: true, for the built-in broker "
    "give --tls-cert FILE"
)


def _stranger(start: bytes) -> str | None:
    for pattern, name in _STRANGERS:
        if pattern.match(start):
            if name == "TLS":
                return _SPEAKS_TLS
            return f"peer speaks {name}, not RocketMQ remoting: it began with {shorten(bytes(start))}"
    return None


class Template:
    """The same request again and again: put together once, but for its number and for fields that vary."""

    __slots__ = ("_pattern",)

    def __init__(self, command: RemotingCommand, numbers: Sequence[str], texts: Sequence[str] = ()) -> None:
        """`numbers` and `texts` are the names of what varies."""
        varying = (*numbers, *texts)
        fields = command.fields | dict.fromkeys(varying, "")
        pattern = encode(RemotingCommand(command.code, fields, flag=command.flag))[PREFIX_BYTES:].replace(b"%", b"%%")
        pattern = pattern.replace(b'"opaque":0', b'"opaque":%d', 1)
        for name in varying:  # in JSON no text holds a quote as it is
            hole = '"%d"' if name in numbers else "%b"
            pattern = pattern.replace(f'"{name}":""'.encode(), f'"{name}":{hole}'.encode(), 1)
        self._pattern = pattern

    def frame(self, *values: int | bytes, body: bytes = b"") -> bytes:
        """The whole frame. `values` are its number, and what varies in the order of the command's fields: of a text its
        JSON, with the quotes.
        """
        header = self._pattern % values
        size = len(header)
        return b"".join((_PREFIX(4 + size + len(body), size), header, body))
