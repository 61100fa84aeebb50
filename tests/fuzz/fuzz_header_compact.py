"""Binary headers: any bytes are a command or a ProtocolError, and a command can be written and read again."""

from __future__ import annotations

import sys

from framework.errors import ProtocolError
from framework.wire import header_compact
from framework.wire.command import RemotingCommand
from tests.fuzz.alone import alone

_GOLDEN = bytes.fromhex(
    "000e 03 01df 00000007 00000000 00000000 00000037 0007 71756575654964 00000001 33 0005 746f706963 00000009"
    "546f70696354657374 000d 636f6e73756d657247726f7570 00000002 6731"
)
SEEDS = [
    _GOLDEN,
    header_compact.encode(RemotingCommand(0, {"标": "签"}, flag=1, remark="FOUND")),
    _GOLDEN[:21],
    _GOLDEN[:-1],
    _GOLDEN[:13] + b"\xff\xff\xff\xff" + _GOLDEN[17:],
    _GOLDEN[:21] + b"\xff\xff" + _GOLDEN[23:],
    _GOLDEN[:2] + b"\xff" + _GOLDEN[3:],
]


def check(data: bytes) -> None:
    try:
        command = header_compact.decode(data, b"")
    except ProtocolError:
        return
    assert command == header_compact.decode(header_compact.encode(command), b"")


if __name__ == "__main__":
    sys.exit(alone("header_compact"))
