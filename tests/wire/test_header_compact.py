"""Header encoding 1: the layout both ways, and lengths that lie."""

from __future__ import annotations

from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.errors import ConfigurationError, ProtocolError
from framework.wire import header_compact
from framework.wire.codes import Language, RequestCode
from framework.wire.command import RemotingCommand

TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
INT16 = st.integers(-(2**15), 2**15 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
COMMANDS = st.builds(
    RemotingCommand,
    INT16,
    st.dictionaries(TEXT, TEXT, max_size=5),
    st.binary(max_size=20),
    number=INT32,
    flag=INT32,
    remark=st.none() | TEXT,
    language=st.sampled_from(sorted(Language)),
    version=INT16,
)
GOLDEN = bytes.fromhex(
    "000e 03 01df 00000007 00000000 00000000 00000037 0007 71756575654964 00000001 33 0005 746f706963 00000009"
    "546f70696354657374 000d 636f6e73756d657247726f7570 00000002 6731"
)


@given(COMMANDS)
def test_decoding_gives_back_what_was_encoded(command: RemotingCommand) -> None:
    assert command == header_compact.decode(header_compact.encode(command), command.body)


def test_the_bytes_are_those_that_java_writes() -> None:
    command = RemotingCommand(
        14, {"queueId": "3", "topic": "TopicTest", "consumerGroup": "g1"}, b"hi", number=7, version=479
    )

    assert GOLDEN == header_compact.encode(command)
    assert command == header_compact.decode(GOLDEN, b"hi")


def test_empty_values_are_left_out() -> None:
    """Java reads them as null and would sign the word "null"."""
    command = header_compact.decode(header_compact.encode(RemotingCommand(1, {"a": "", "b": "x"}, remark="")), b"")

    assert ({"b": "x"}, None) == (command.fields, command.remark)


def test_pop_requests_are_refused_by_name() -> None:
    with pytest.raises(ConfigurationError, match=r"POP_MESSAGE \(200050\) does not fit .* JSON header"):
        header_compact.encode(RemotingCommand(RequestCode.POP_MESSAGE))


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (RemotingCommand(-32769), "request -32769 does not fit"),
        (RemotingCommand(1, version=32768), "version 32768 does not fit"),
        (RemotingCommand(1, {"a" * 32768: "x"}), "a name of 32768 bytes"),
        (RemotingCommand(1, {"": "x"}), "a name of 0 bytes"),
        (RemotingCommand(1, {"a": "\ud800"}), "lone surrogate"),
        (RemotingCommand(1, remark="\ud800"), "lone surrogate"),
    ],
)
def test_what_the_layout_cannot_carry_is_refused(command: RemotingCommand, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        header_compact.encode(command)


@pytest.mark.parametrize("language", [14, 255])
def test_an_unknown_language_is_other(language: int) -> None:
    header = pack(">hBhiiii", 1, language, 32767, 0, 0, 0, 0)

    assert (Language.OTHER, 32767) == (
        header_compact.decode(header, b"").language,
        header_compact.decode(header, b"").version,
    )
    assert (
        Language.OTHER
        == header_compact.decode(header_compact.encode(RemotingCommand(1, language=language)), b"").language
    )


def test_of_a_key_given_twice_the_last_wins() -> None:
    header = with_pairs(pair(b"a", b"1") + pair(b"a", b"2") + pair(b"b", b""))

    assert {"a": "2"} == header_compact.decode(header, b"").fields


def with_pairs(pairs: bytes, claimed: int | None = None) -> bytes:
    return pack(">hBhiiii", 1, 3, 477, 0, 0, 0, len(pairs) if claimed is None else claimed) + pairs


def pair(key: bytes, value: bytes, key_size: int | None = None, value_size: int | None = None) -> bytes:
    return b"".join(
        (
            pack(">h", len(key) if key_size is None else key_size),
            key,
            pack(">i", len(value) if value_size is None else value_size),
            value,
        )
    )


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (b"", "binary header of 0 bytes is shorter than its fixed part of 21"),
        (GOLDEN[:20], "shorter than its fixed part"),
        (pack(">hBhiiii", 1, 3, 477, 0, 0, -1, 0), "header remark of -1 bytes"),
        (pack(">hBhiiii", 1, 3, 477, 0, 0, 1, 0), "header remark of 1 bytes ends outside"),
        (pack(">hBhiiii", 1, 3, 477, 0, 0, 0x7FFFFFFF, 0), "header remark of 2147483647 bytes"),
        (with_pairs(b"", -1), "header fields of -1 bytes"),
        (with_pairs(b"", 1), "header fields of 1 bytes end outside the header of 21"),
        (with_pairs(b"\0"), "header field 1 ends outside the header"),
        (with_pairs(b"\0\1a"), "header field 1 ends outside the header"),
        (with_pairs(pair(b"a", b"b") * 2 + pair(b"c", b"d", value_size=2)), "header field 3 ends outside the header"),
        (with_pairs(pair(b"a", b"b", value_size=-1)), "header field 1 ends outside the header"),
        (with_pairs(pair(b"a", b"b", key_size=32767)), "header field 1 ends outside the header"),
        (with_pairs(pair(b"abcd", b"b", key_size=-1)), "header field 1 has a name of -1 bytes"),
        (with_pairs(pair(b"abcd", b"b", key_size=-32768)), "header field 1 has a name of -32768 bytes"),
        (with_pairs(pair(b"", b"b")), "header field 1 has a name of 0 bytes"),
        (with_pairs(pair(b"\xff", b"b")), "not UTF-8"),
        (pack(">hBhiii", 1, 3, 477, 0, 0, 1) + b"\xff" + pack(">i", 0), "not UTF-8"),
    ],
)
def test_lengths_that_lie_get_one_clear_error(header: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        header_compact.decode(header, b"")
