"""Frames: golden bytes, lengths, and peers that speak something else."""

from __future__ import annotations

from struct import pack

import pytest

from framework.errors import ConfigurationError, ProtocolError
from framework.wire import frame
from framework.wire.command import RemotingCommand
from tests.wire.frames import decode_frame

GOLDEN = bytes.fromhex(
    "00000052 0100004c 000e 03 01df 00000007 00000000 00000000 00000037 0007 71756575654964 00000001 33 0005"
    "746f706963 00000009 546f70696354657374 000d 636f6e73756d657247726f7570 00000002 6731 6869"
)
GOLDEN_JSON = bytes.fromhex("000000ab 000000a7") + (
    b'{"code":14,"extFields":{"queueId":"3","topic":"TopicTest","consumerGroup":"g1"},"flag":0,'
    b'"language":"PYTHON","opaque":7,"serializeTypeCurrentRPC":"JSON","version":479}'
)


def query(body: bytes) -> RemotingCommand:
    return RemotingCommand(
        14, {"queueId": "3", "topic": "TopicTest", "consumerGroup": "g1"}, body, number=7, version=479
    )


def test_a_binary_frame_is_the_one_that_java_writes() -> None:
    assert GOLDEN == frame.encode(query(b"hi"), binary=True)
    assert query(b"hi") == decode_frame(GOLDEN[4:])


def test_a_json_frame_of_java_is_read() -> None:
    assert query(b"") == decode_frame(GOLDEN_JSON[4:])


def test_a_frame_may_be_a_view() -> None:
    command = decode_frame(memoryview(GOLDEN)[4:])

    assert query(b"hi") == command
    assert bytes is type(command.body)


@pytest.mark.parametrize("binary", [False, True])
def test_decoding_gives_back_what_was_encoded(binary: bool) -> None:
    data = frame.encode(query(b"\0\xff"), binary=binary)

    assert len(data) - 4 == int.from_bytes(data[:4])
    assert query(b"\0\xff") == decode_frame(data[4:])


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "frame of 0 bytes is too short for a header length"),
        (b"\0\0\0", "frame of 3 bytes is too short"),
        (pack(">I", 0), "bad header length 0 in a frame of 4 bytes"),
        (pack(">I", 900) + bytes(36), "bad header length 900 in a frame of 40 bytes"),
        (pack(">I", 2) + b"{", "bad header length 2 in a frame of 5 bytes"),
        (pack(">I", 7 << 24 | 2) + b"{}", "unknown header encoding 7"),
        (pack(">I", 2 << 24 | 2) + b"{}", "unknown header encoding 2"),
        (pack(">I", 255 << 24 | 2) + b"{}", "unknown header encoding 255"),
        (pack(">I", 65_537) + bytes(65_537), "header of 65537 bytes exceeds the limit of 65536"),
    ],
)
def test_lengths_that_lie_get_one_clear_error(data: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        decode_frame(data)


@pytest.mark.parametrize(
    ("start", "reason"),
    [
        (bytes.fromhex("15030300020228"), "peer speaks TLS and this end does not; .*--tls-cert FILE"),
        (bytes.fromhex("1603010200010001"), "peer speaks TLS and this end does not; .*--tls-cert FILE"),
        (b"HTTP/1.1 400 Bad Request\r\n", "peer speaks HTTP, not RocketMQ remoting: it began with b'HTTP/1.1"),
        (b"GET / HTTP/1.1\r\n", "peer speaks HTTP, not RocketMQ remoting"),
        (b"PRI * HTTP/2.0\r\n", "peer speaks HTTP, not RocketMQ remoting"),
        (b"SSH-2.0-OpenSSH_9.6", "peer speaks SSH, not RocketMQ remoting"),
        (b"*1\r\n$4\r\nPING\r\n", "peer speaks Redis, not RocketMQ remoting"),
        (b"-ERR unknown command", "peer speaks Redis, not RocketMQ remoting"),
        (b"PROXY TCP4 10.0.0.1", "peer speaks the PROXY protocol, not RocketMQ remoting"),
        (b"\xff\xff\xff\xff", "frame of 4294967295 bytes exceeds the limit of 16777216"),
        (b"\x7f\xff\xff\xff", "frame of 2147483647 bytes exceeds the limit of 16777216"),
        (pack(">I", 16 * 1024 * 1024 + 1), "frame of 16777217 bytes exceeds the limit of 16777216"),
    ],
)
def test_a_stranger_is_called_by_its_name(start: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        frame.check_length(int.from_bytes(start[:4]), frame.FRAME_BYTES_MAX, start[:8])


def test_a_header_that_a_frame_cannot_express_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"SEND_MESSAGE \(10\): header of 167\d{5} bytes exceeds"):
        frame.encode(RemotingCommand(10, remark="x" * 0x100_0000))
