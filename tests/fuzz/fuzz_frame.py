"""Frames: any bytes, whole or cut in two, give the same commands or an error; and what was read can be written."""

from __future__ import annotations

import sys

from framework.errors import ConfigurationError, ProtocolError
from framework.wire import frame
from framework.wire.command import RemotingCommand
from framework.wire.connection import Connection, Limits
from tests.fuzz.alone import alone
from tests.wire.frames import decode_frame

_QUERY = RemotingCommand(
    14, {"queueId": "3", "topic": "TopicTest", "consumerGroup": "g1"}, b"hi", number=7, version=479
)
SEEDS = [
    b"\x00" + frame.encode(_QUERY),
    b"\x07" + frame.encode(_QUERY, binary=True),
    b"\x03" + frame.encode(_QUERY) * 2 + frame.encode(_QUERY, binary=True),
    b"\x09" + frame.encode(RemotingCommand(0, flag=1, remark="FOUND")),
    b"\x00\xff\xff\xff\xff",
    b"\x02\x15\x03\x03\x00\x02\x02\x28",
    b"\x00HTTP/1.1 400\r\n",
    b"\x00*1\r\n$4\r\n",
    b"\x00\x00\x00\x00\x00",
    b"\x00\x00\x00\x00\x28\x00\x00\x03\x84",
]


WIDE = Limits()
TIGHT = Limits(frame_bytes_max=100, header_bytes_max=80, times_read_past=4)  # most seeds are read past


def check(data: bytes) -> None:
    cut, data = (data[0], data[1:]) if data else (0, b"")
    whole = received(data)
    assert whole == received(data[:cut], data[cut:])
    assert received(data, limits=TIGHT) == received(data[:cut], data[cut:], limits=TIGHT)
    for command in whole or ():
        for binary in (False, True):
            try:
                again = decode_frame(frame.encode(command, binary=binary)[4:])
            except ConfigurationError:  # a version too wide for the binary header, for one
                continue
            if binary:
                command.fields = {name: text for name, text in command.fields.items() if text}
                command.remark = command.remark or None
            assert command == again


def received(*pieces: bytes, limits: Limits = WIDE) -> list[RemotingCommand] | None:
    """The commands of all pieces, or None where one was refused."""
    connection: Connection[int] = Connection(limits)
    connection.expect(7, 7)
    commands = []
    try:
        for piece in pieces:
            commands += [command for _, command in connection.receive_data(piece)]
    except ProtocolError:
        return None
    return commands


if __name__ == "__main__":
    sys.exit(alone("frame"))
