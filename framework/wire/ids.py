"""Hosts as the wire has them, and the two kinds of message id.

    offset message id   store host and port | commit-log offset                      where a broker holds the message
    unique key          IP | process | random | ms since the month began | counter   what the producer calls it

Both are upper-case hexadecimal and 32 digits long with IPv4, so they cannot be told apart by their looks. Nothing here
reads the clock or draws a random number: a `UniqueKeys` is given both.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from struct import Struct
from typing import NamedTuple

from framework.errors import shorten
from framework.mistakes import MessageWrong

IPV4_HOST_BYTES = 8  # address and port
IPV6_HOST_BYTES = 20

_PORT = Struct(">i")
_OFFSET = Struct(">q")
_UNIQUE_TAIL = Struct(">IH")
_BACKWARDS_MS_MAX = 1_000_000  # 1000 s: a clock set back by less keeps the month's beginning, as in Java


def pack_host(address: str, port: int) -> bytes:
    """An IP address and port, 8 or 20 bytes. A name is not an address: ConfigurationError."""
    try:
        packed = ip_address(address).packed
    except ValueError as error:
        raise MessageWrong(f"{shorten(address)} is not an IP address") from error
    return packed + _PORT.pack(port)


def unpack_host(host: bytes) -> tuple[str, int]:
    """Address and port out of 8 or 20 bytes."""
    return str(ip_address(host[:-4])), _PORT.unpack_from(host, len(host) - 4)[0]


def offset_message_id(host: bytes, commit_log_offset: int) -> str:
    """32 digits, or 56 with an IPv6 host."""
    return (host + _OFFSET.pack(commit_log_offset)).hex().upper()


class OffsetMessageId(NamedTuple):
    """Where a message is: ask the broker at this address for this place in its log."""

    address: str
    port: int
    commit_log_offset: int


def parse_offset_message_id(text: str) -> OffsetMessageId | None:
    """The parts of the id, or None where the text cannot be one. A unique key may look like one: its port is odd."""
    if len(text) not in {2 * (IPV4_HOST_BYTES + 8), 2 * (IPV6_HOST_BYTES + 8)}:
        return None
    try:
        data = bytes.fromhex(text)
    except ValueError:
        return None
    if 2 * len(data) != len(text):  # fromhex skips blanks
        return None
    return OffsetMessageId(*unpack_host(data[:-8]), *_OFFSET.unpack_from(data, len(data) - 8))


class UniqueKeys:
    """Makes a producer's unique keys. One a process: make another after a fork, with another `seed`."""

    __slots__ = ("_counter", "_month_end_ms", "_month_start_ms", "_prefix")

    def __init__(self, host: str, process: int, seed: int) -> None:
        """`seed` is a random 32-bit number. Months are UTC's, which only shows in tools that decode the time."""
        address = pack_host(host, 0)[:-4]
        self._prefix = (address + (process & 0xFFFF).to_bytes(2) + (seed & 0xFFFF_FFFF).to_bytes(4)).hex().upper()
        self._month_start_ms, self._month_end_ms = 0, 0
        self._counter = 0

    def next(self, now_ms: int) -> str:
        """A key that this process did not give before (65,536 within one millisecond)."""
        since_ms = now_ms - self._month_start_ms
        if now_ms >= self._month_end_ms or since_ms < -_BACKWARDS_MS_MAX:
            self._month_start_ms, self._month_end_ms = month_of(now_ms)
            since_ms = now_ms - self._month_start_ms
        tail = _UNIQUE_TAIL.pack(max(since_ms, 0), self._counter)
        self._counter = (self._counter + 1) & 0xFFFF
        return self._prefix + tail.hex().upper()


def month_of(now_ms: int) -> tuple[int, int]:
    """When the month of this instant begins and ends, in milliseconds."""
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    start = (epoch + timedelta(milliseconds=now_ms)).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    end = (start + timedelta(days=32)).replace(day=1)
    millisecond = timedelta(milliseconds=1)
    return (start - epoch) // millisecond, (end - epoch) // millisecond
