"""Frames by hand, for peers that mean harm: any length, header, encoding and number, whether they fit or not.

Nothing here is `framework.wire`'s, which refuses to write what no peer should send. Both roles use it: a client that
asks (`request`), a server that answers (`answer`). `Frames` takes apart what came back.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha1
from hmac import HMAC
from struct import Struct
from typing import Any

JSON, BINARY = 0, 1
ANSWER, ONE_WAY = 1, 2

_UINT32 = Struct(">I")


def frame(header: bytes, body: bytes = b"", *, encoding: int = JSON, header_says: int | None = None,
          says: int | None = None) -> bytes:  # fmt: skip
    """Length, encoding and header length, header, body. `says` and `header_says` are what the lengths claim instead."""
    length = 4 + len(header) + len(body) if says is None else says
    word = encoding << 24 | ((len(header) if header_says is None else header_says) & 0xFF_FFFF)
    return _UINT32.pack(length & 0xFFFF_FFFF) + _UINT32.pack(word) + header + body


def json_header(
    code: Any, fields: Mapping[str, Any] | None = None, *, number: Any = 1, flag: Any = 0, remark: Any = None,
    language: Any = "JAVA", version: Any = 477, **others: Any,
) -> bytes:  # fmt: skip
    """A header of any values whatever; `others` are keys that no header has."""
    values = {
        "code": code, "language": language, "version": version, "opaque": number, "flag": flag,
        "serializeTypeCurrentRPC": "JSON", **others,
    }  # fmt: skip
    if remark is not None:
        values["remark"] = remark
    if fields is not None:
        values["extFields"] = fields
    return json.dumps(values).encode("utf-8", "surrogatepass")


def binary_header(
    code: int, fields: Iterable[tuple[bytes, bytes]] = (), *, number: int = 1, flag: int = 0, remark: bytes = b"",
    language: int = 0, version: int = 477, remark_says: int | None = None, fields_say: int | None = None,
) -> bytes:  # fmt: skip
    """The compact header. Pairs may repeat a name; lengths may be said wrong."""
    pairs = b"".join(_pair(name, value) for name, value in fields)
    return b"".join((
        Struct(">hBhii").pack(code, language, version, number, flag),
        Struct(">i").pack(len(remark) if remark_says is None else remark_says), remark,
        Struct(">i").pack(len(pairs) if fields_say is None else fields_say), pairs,
    ))  # fmt: skip


def _pair(name: bytes, value: bytes) -> bytes:
    return Struct(">H").pack(len(name)) + name + _UINT32.pack(len(value)) + value


def request(
    code: int, fields: Mapping[str, Any] | None = None, body: bytes = b"", *, number: int = 1, one_way: bool = False,
    **header: Any,
) -> bytes:  # fmt: skip
    """A request as an honest peer would send it, unless `header` says otherwise."""
    return frame(json_header(code, fields, number=number, flag=ONE_WAY if one_way else 0, **header), body)


def answer(
    to: int, code: int = 0, fields: Mapping[str, Any] | None = None, body: bytes = b"", *, remark: Any = None,
    **header: Any,
) -> bytes:  # fmt: skip
    """What a server says to the request of that number."""
    return frame(json_header(code, fields, number=to, flag=ANSWER, remark=remark, **header), body)


def signed(fields: Mapping[str, str], body: bytes, key: str, secret: str) -> dict[str, str]:
    """Fields with an access key and a signature that is right."""
    named = {**fields, "AccessKey": key}
    text = "".join(named[name] for name in sorted(named)).encode()
    return {**named, "Signature": b64encode(HMAC(secret.encode(), text + body, sha1).digest()).decode()}


# Requests that attacks are made of


def send(topic: str, body: bytes, *, properties: str = "", queue: int = 0, **more: Any) -> bytes:
    """SEND_MESSAGE_V2."""
    return request(310, send_fields(topic, properties=properties, queue=queue), body, **more)


def send_batch(topic: str, messages: Iterable[bytes], **more: Any) -> bytes:
    """SEND_BATCH_MESSAGE, of bodies without properties."""
    return request(320, {**send_fields(topic), "m": "true"}, batch(messages), **more)


def send_fields(topic: str, *, properties: str = "", queue: int = 0) -> dict[str, str]:
    return {
        "a": "hostile", "b": topic, "c": "TBW102", "d": "4", "e": str(queue), "f": "0", "g": "1600000000000",
        "h": "0", "i": properties, "j": "0", "k": "false",
    }  # fmt: skip


def batch(messages: Iterable[bytes]) -> bytes:
    """A batch's body: each message with a body and no properties."""
    head = Struct(">iiiii")
    return b"".join(head.pack(22 + len(each), 0, 0, 0, len(each)) + each + b"\0\0" for each in messages)


def pull(topic: str, group: str = "hostile", *, number: int = 1, one_way: bool = False, **more: Any) -> bytes:
    """PULL_MESSAGE that brings its subscription."""
    return request(11, pull_fields(topic, group, **more), number=number, one_way=one_way)


def pull_fields(
    topic: str, group: str, *, offset: int = 0, queue: int = 0, wait_ms: int = 0, tags: str = "*", kind: str = "TAG"
) -> dict[str, str]:
    """It waits for a message where `wait_ms` is above 0."""
    return {
        "consumerGroup": group, "topic": topic, "queueId": str(queue), "queueOffset": str(offset), "maxMsgNums": "32",
        "sysFlag": "6" if wait_ms else "4", "commitOffset": "0", "suspendTimeoutMillis": str(wait_ms),
        "subVersion": "0", "subscription": tags, "expressionType": kind,
    }  # fmt: skip


# What came back


@dataclass(frozen=True)
class Received:
    """A frame that the other side sent, with a JSON header."""

    header: dict[str, Any]
    body: bytes

    @property
    def code(self) -> int:
        return int(self.header["code"])

    @property
    def number(self) -> int:
        return int(self.header["opaque"])

    @property
    def is_answer(self) -> bool:
        return bool(self.header["flag"] & ANSWER)

    @property
    def remark(self) -> str:
        return str(self.header.get("remark") or "")

    @property
    def fields(self) -> dict[str, str]:
        return dict(self.header.get("extFields") or {})


@dataclass
class Frames:
    """Bytes in, whole frames out; half of one is kept for later."""

    _rest: bytearray = field(default_factory=bytearray)

    def feed(self, data: bytes) -> Iterator[Received]:
        self._rest += data
        while len(self._rest) >= 4:
            (length,) = _UINT32.unpack_from(self._rest)
            if len(self._rest) < 4 + length:
                return
            whole = bytes(self._rest[4 : 4 + length])
            del self._rest[: 4 + length]
            size = _UINT32.unpack_from(whole)[0] & 0xFF_FFFF
            yield Received(json.loads(whole[4 : 4 + size]), whole[4 + size :])
