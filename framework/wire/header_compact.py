"""Header encoding 1, RocketMQ's own binary one.

    int16 code | int8 language | int16 version | int32 opaque | int32 flag
    int32 remark length | remark
    int32 length of all pairs | { int16 key length | key | int32 value length | value }

Owns this layout and what a lying one is answered with. It knows neither frames nor what the fields mean. The code is a
signed 16-bit number: POP requests do not fit and must travel as JSON. Length 0 means "absent", so an empty value is
left out when writing: Java reads it as null and would sign another text than we did.
"""

from __future__ import annotations

from struct import Struct

from framework.errors import ProtocolError, shorten
from framework.mistakes import MessageWrong
from framework.wire.codes import Language, request_name
from framework.wire.command import RemotingCommand

INT16_MIN = -0x8000
INT16_MAX = 0x7FFF

_PREFIX = Struct(">hBhiii")  # code, language, version, opaque, flag, remark length
_INT32 = Struct(">i")
_INT16 = Struct(">h")
_LANGUAGES = len(Language)


def encode(command: RemotingCommand) -> bytes:
    """The header's bytes. What does not fit the layout is a ConfigurationError that says so."""
    if not INT16_MIN <= command.code <= INT16_MAX:
        raise MessageWrong(
            f"{request_name(command.code)} does not fit the 16 bits of the binary header; send it with a JSON header"
        )
    if not INT16_MIN <= command.version <= INT16_MAX:
        raise MessageWrong(f"version {command.version} does not fit the 16 bits of the binary header")
    try:
        pairs = b"".join([_pair(name, text) for name, text in command.fields.items() if text])
        remark = command.remark.encode() if command.remark else b""
    except UnicodeEncodeError as error:
        raise MessageWrong(
            f"{request_name(command.code)}: {shorten(error.object)} holds a lone surrogate, which UTF-8 cannot carry"
        ) from error
    language = command.language if 0 <= command.language < _LANGUAGES else Language.OTHER
    prefix = _PREFIX.pack(command.code, language, command.version, command.number, command.flag, len(remark))
    return b"".join((prefix, remark, _INT32.pack(len(pairs)), pairs))


def _pair(name: str, text: str) -> bytes:
    key, value = name.encode(), text.encode()
    if not 0 < len(key) <= INT16_MAX:
        raise MessageWrong(f"header field {shorten(name)}: a name of {len(key)} bytes does not fit the binary header")
    return b"".join((_INT16.pack(len(key)), key, _INT32.pack(len(value)), value))


def decode(header: bytes, body: bytes) -> RemotingCommand:
    """The command that header and body make. Of a key given twice the last wins, as in Java."""
    size = len(header)
    if size < _PREFIX.size + _INT32.size:
        raise ProtocolError(f"binary header of {size} bytes is shorter than its fixed part of {_PREFIX.size + 4}")
    code, language, version, number, flag, remark_size = _PREFIX.unpack_from(header)
    at = _PREFIX.size + remark_size
    if remark_size < 0 or at + 4 > size:
        raise ProtocolError(f"header remark of {remark_size} bytes ends outside the header of {size}")
    (pairs_size,) = _INT32.unpack_from(header, at)
    end = at + 4 + pairs_size
    if pairs_size < 0 or end > size:
        raise ProtocolError(f"header fields of {pairs_size} bytes end outside the header of {size}")
    try:
        remark = header[_PREFIX.size : at].decode() if remark_size else None
        fields = _pairs(header, at + 4, end)
    except UnicodeDecodeError as error:
        raise ProtocolError(f"binary header holds {shorten(error.object)}, which is not UTF-8") from error
    return RemotingCommand(
        code,
        fields,
        body,
        number=number,
        flag=flag,
        remark=remark,
        language=language if language < _LANGUAGES else Language.OTHER,
        version=version,
    )


def _pairs(header: bytes, at: int, end: int) -> dict[str, str]:
    fields: dict[str, str] = {}
    count = 0
    while at < end:
        count += 1
        # Each length is held against the end before it is used: no slice reaches past it, no copy is made in vain.
        value_at = at + 6 + _INT16.unpack_from(header, at)[0] if at + 2 <= end else end + 1
        if value_at > end:
            raise ProtocolError(f"header field {count} ends outside the header")
        if value_at <= at + 6:
            raise ProtocolError(f"header field {count} has a name of {value_at - at - 6} bytes")
        (value_size,) = _INT32.unpack_from(header, value_at - 4)
        if value_size < 0 or value_at + value_size > end:
            raise ProtocolError(f"header field {count} ends outside the header")
        if value_size:
            fields[header[at + 2 : value_at - 4].decode()] = header[value_at : value_at + value_size].decode()
        at = value_at + value_size
    return fields
