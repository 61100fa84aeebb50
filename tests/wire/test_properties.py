"""Property texts: round trips, what is dropped, limits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.errors import ConfigurationError, ProtocolError
from framework.wire import properties

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02"), min_size=1, max_size=12)


@given(st.dictionaries(TEXT, TEXT, max_size=6))
def test_decoding_gives_back_what_was_encoded(pairs: dict[str, str]) -> None:
    text = properties.encode(pairs)

    assert pairs == properties.decode(text)
    assert pairs == properties.decode_stored(text.encode())


def as_java(text: str) -> dict[str, str]:
    """MessageDecoder.string2messageProperties, in its own words: positions of separators, pair by pair."""
    found = {}
    for pair in text.split("\x02"):
        if len(pair) >= 3 and 0 < pair.find("\x01") < len(pair) - 1:
            name, value = pair.split("\x01", 1)
            found[name] = value
    return found


@given(st.text("ab\x01\x02", max_size=30))
def test_any_text_is_read_as_java_reads_it(text: str) -> None:
    assert as_java(text) == properties.decode(text)
    assert as_java(text) == properties.decode_stored(text.encode())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("k\x01v", {"k": "v"}),
        ("k\x01v\x02", {"k": "v"}),
        ("k\x01\x02a\x01b\x02", {"a": "b"}),
        ("\x01v\x02a\x01b\x02", {"a": "b"}),
        ("no separator\x02a\x01b\x02", {"a": "b"}),
        ("\x02\x02a\x01b\x02\x02", {"a": "b"}),
        ("a\x01b\x01c\x02", {"a": "b\x01c"}),
        ("a\x011\x02a\x012\x02", {"a": "2"}),
        ("__proto__\x01x\x02DELAY\x01y\x02", {"__proto__": "x", "DELAY": "y"}),
    ],
)
def test_what_lacks_a_name_or_a_value_is_dropped(text: str, expected: dict[str, str]) -> None:
    assert expected == properties.decode(text)


def test_empty_values_are_not_written() -> None:
    assert "a\x01b\x02" == properties.encode({"x": "", "a": "b", "": "y"})


@pytest.mark.parametrize(
    ("pairs", "reason"),
    [
        ({"a\x01": "b"}, r"property 'a\\x01'='b' holds"),
        ({"a": "b\x02"}, r"holds \\x01 or \\x02"),
        ({"a": "\x01"}, "holds"),
        ({str(n): "x" for n in range(1025)}, "1025 properties exceed the limit of 1024"),
        ({"a": "x" * 32_765}, "properties of 32768 bytes exceed the 32767"),
        ({"a": "标" * 11_000}, "properties of 33003 bytes"),
        ({"a": "\ud800"}, "lone surrogate"),
    ],
)
def test_what_a_text_cannot_carry_is_refused(pairs: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        properties.encode(pairs)


def test_the_largest_text_passes() -> None:
    pairs = {"a": "x" * 32_764}

    assert pairs == properties.decode(properties.encode(pairs))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a\x01b\x02" * 262_144, "properties of 1048576 characters exceed the limit of 32767 bytes"),
        ("a\x01b\x02" * 1025, "1025 properties exceed the limit of 1024"),
        ("\x02" * 1025, "1025 properties"),
    ],
)
def test_a_bomb_from_outside_is_refused_before_it_is_taken_apart(text: str, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        properties.decode(text)


def test_of_a_stored_bomb_the_first_pairs_are_read() -> None:
    """A producer must not be able to stop a queue with it."""
    read = properties.decode_stored(b"".join(b"%d\x01b\x02" % n for n in range(3000)))

    assert [str(n) for n in range(1024)] == list(read)


def test_stored_bytes_that_are_no_text_are_replaced() -> None:
    assert {"a": "\ufffd"} == properties.decode_stored(b"a\x01\xff\x02")
