"""Batch bodies: golden bytes, round trips, lengths that lie."""

from __future__ import annotations

from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.errors import ProtocolError
from framework.wire import batch
from tests.wire import batches
from tests.wire.batches import BatchedMessage

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02"), min_size=1, max_size=6)
PARTS = st.builds(
    BatchedMessage, st.binary(max_size=20), st.dictionaries(TEXT, TEXT, max_size=3), st.integers(-(2**31), 2**31 - 1)
)
GOLDEN = bytes.fromhex(
    "00000031 00000000 00000000 00000000 00000003 6f6e65 0018 780131025741495401747275650254414753015461674102"
    "00000023 00000000 00000000 00000000 00000003 74776f 000a 57414954017472756502"
)


def test_the_bytes_are_those_that_java_writes() -> None:
    parts = [
        BatchedMessage(b"one", {"x": "1", "WAIT": "true", "TAGS": "TagA"}),
        BatchedMessage(b"two", {"WAIT": "true"}),
    ]

    assert GOLDEN == batches.encode(parts)
    assert parts == batches.decode(GOLDEN)


@given(st.lists(PARTS, max_size=5))
def test_decoding_gives_back_what_was_encoded(parts: list[BatchedMessage]) -> None:
    assert parts == batches.decode(batches.encode(parts))


def part(size: int = 22, body: int = 0, properties: int = 0, rest: bytes = b"") -> bytes:
    return pack(">iiiiih", size, 0, 0, 0, body, properties) + rest


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (GOLDEN[:-1], "message 2 says 35 bytes, of 34 that are left"),
        (GOLDEN + b"\0" * 21, "21 bytes after message 2 are too few"),
        (part(size=0), "message 1 says 0 bytes, of 22"),
        (part(size=-1), "message 1 says -1 bytes"),
        (part(size=21), "message 1 says 21 bytes"),
        (part(size=23), "message 1 says 23 bytes, of 22"),
        (part(body=1), "message 1 of 22 bytes has a body of 1"),
        (part(body=-1), "has a body of -1"),
        (part(body=0x7FFFFFFF), "has a body of 2147483647"),
        (part(properties=1), "has properties of 1"),
        (part(properties=-1), "has properties of -1"),
        (part() * (batch.PARTS_MAX + 1), "more than 65536 messages"),
    ],
)
def test_lengths_that_lie_get_one_clear_error(data: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError, match=f"batch: .*{reason}"):
        batches.decode(data)
