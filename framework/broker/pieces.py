"""Pieces: the body of an answer about everything there is, made a piece at a time and put together at the end."""

from __future__ import annotations

from framework.broker.request import Refusal
from framework.wire.codes import ResponseCode
from framework.wire.frame import FRAME_BYTES_MAX, HEADER_BYTES_MAX

BODY_BYTES_MAX = FRAME_BYTES_MAX - HEADER_BYTES_MAX


class Pieces:
    """Of one list or object, `opened` and `closed` by its brackets, which is the first of each body."""

    def __init__(self, opened: bytes, closed: bytes) -> None:
        self._opened, self._closed = opened, closed
        self._parts: list[bytes] = []
        self._size = 0

    def add(self, body: bytes) -> None:
        """What stands between the brackets of a whole body with a part of it. A Refusal of more than a frame holds."""
        part = self._between(body)
        self._size += len(part) + 1
        if self._size > BODY_BYTES_MAX:
            remark = f"[OVERLOAD] an answer of more than {BODY_BYTES_MAX} bytes; ask for one group at a time"
            raise Refusal(ResponseCode.SYSTEM_BUSY, remark)
        if part:
            self._parts.append(part)

    def body(self, empty: bytes) -> bytes:
        """The whole, of one whose brackets are empty."""
        begin, end = empty.split(self._opened + self._closed, 1)
        return b"".join((begin, self._opened, b",".join(self._parts), self._closed, end))

    def _between(self, body: bytes) -> bytes:
        begin = body.index(self._opened) + len(self._opened)
        return body[begin : body.rindex(self._closed)]
