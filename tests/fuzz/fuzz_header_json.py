"""JSON headers: any bytes are a command or a ProtocolError, and a command can be written and read again."""

from __future__ import annotations

import sys

from framework.errors import ProtocolError
from framework.wire import header_json
from framework.wire.command import RemotingCommand
from tests.fuzz.alone import alone

SEEDS = [
    (
        b'{"code":14,"extFields":{"queueId":"3","topic":"TopicTest","consumerGroup":"g1"},"flag":0,"language":"PYTHON",'
        b'"opaque":7,"serializeTypeCurrentRPC":"JSON","version":479}'
    ),
    header_json.encode(RemotingCommand(0, {"标": "签\x01"}, flag=1, remark="FOUND")),
    b'{"code":1,"remark":"\\ud83d\\ude00","extFields":null}',
    b'{"code":1,"extFields":{"a":null,"b":"\\ud800"}}',
    b'{"code":NaN}',
    b'{"code":1e999,"opaque":99999999999}',
    b'{"code":"105"}',
    b'{"code":1,"language":9}',
    b'{"code":1.5,"flag":true,"remark":-1.50e7,"extFields":{"a":[null,{"b":1e400}],"c":0.0000001,"d":["x"],"e":{}}}',
    b"[" * 3000,
    b'\xef\xbb\xbf{"code":1}',
]


def check(data: bytes) -> None:
    try:
        command = header_json.decode(data, b"")
    except ProtocolError:
        return
    assert command == header_json.decode(header_json.encode(command), b"")


if __name__ == "__main__":
    sys.exit(alone("header_json"))
