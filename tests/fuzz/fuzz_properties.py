"""Property texts: any text is read as Java's parser reads it, and what was read can be written and read again."""

from __future__ import annotations

import sys

from framework.errors import ConfigurationError, ProtocolError
from framework.wire import properties
from tests.fuzz.alone import alone

SEEDS = [
    b"KEYS\x01k1\x02TAGS\x01TagA\x02",
    b"k\x01v",
    b"a\x01b\x01c\x02",
    b"\x01v\x02k\x01\x02\x02\x02no separator\x02",
    "标\x01签\x02".encode(),
    b"a\x01\xff\x02",
]


def check(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    stored = properties.decode_stored(data)
    assert as_java("\x02".join(text.split("\x02")[:1024])) == stored
    try:
        read = properties.decode(text)
    except ProtocolError:
        assert len(text) > 32_767 or text.count("\x02") > 1024
        return
    assert as_java(text) == read
    try:
        written = properties.encode(read)
    except ConfigurationError:  # a value with the separator in it can be read, and not be written
        assert any("\x01" in value for value in read.values()) or len(data) > 10_000
        return
    assert read == properties.decode(written)


def as_java(text: str) -> dict[str, str]:
    """MessageDecoder.string2messageProperties: positions of separators, pair by pair."""
    found = {}
    for pair in text.split("\x02"):
        if len(pair) >= 3 and 0 < pair.find("\x01") < len(pair) - 1:
            name, value = pair.split("\x01", 1)
            found[name] = value
    return found


if __name__ == "__main__":
    sys.exit(alone("properties"))
