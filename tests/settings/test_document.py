"""YAML as settings may use it, and every way in which it may not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.errors import ConfigurationError
from framework.settings import document
from framework.settings.document import ALIASES_MAX, BYTES_MAX, DEPTH_MAX, parsed

LAUGHS = "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
    f"{chr(98 + at)}: &{chr(98 + at)} [{', '.join(['*' + chr(97 + at)] * 9)}]\n" for at in range(9)
)


@pytest.mark.parametrize(
    "text", ["NO", "yes", "on", "12:30:45", "1_000", "0o17", "017", "1e3", "true", ".inf", "2026-11-21"]
)
def test_a_scalar_stays_the_text_that_was_written(text: str) -> None:
    """The schema decides what is a number, so a country called NO needs no quotes."""
    assert {"key": text} == parsed(f"key: {text}", "f.yaml").values


@pytest.mark.parametrize("text", ["", "~", "null"])
def test_nothing_is_nothing(text: str) -> None:
    assert {"key": None} == parsed(f"key: {text}", "f.yaml").values


def test_quotes_make_a_text_of_anything() -> None:
    assert {"key": "null", "other": ""} == parsed("key: 'null'\nother: ''", "f.yaml").values


def test_every_value_has_its_place() -> None:
    found = parsed("app:\n  name: desk\n  handlers: [a,\n    b]\n", "f.yaml")

    assert "f.yaml:2:3" == found.places[("app", "name")]
    assert "f.yaml:3:14" == found.places["app", "handlers", "0"]
    assert "f.yaml:4:5" == found.places["app", "handlers", "1"]


@pytest.mark.parametrize("text", ["", "# nothing but a comment\n", "\ufeff", "---\n...\n"])
def test_an_empty_file_says_nothing(text: str) -> None:
    assert {} == parsed(text, "f.yaml").values


def test_a_byte_order_mark_is_no_part_of_a_key() -> None:
    assert {"a": "1"} == parsed("\ufeffa: 1", "f.yaml").values


def test_merge_keys_take_what_is_not_written() -> None:
    text = "base: &base {one: 1, two: 2}\nmade:\n  two: 22\n  <<: *base\nmany: {<<: [*base, {one: 9, three: 3}]}\n"
    found = parsed(text, "f.yaml")

    assert {"one": "1", "two": "22"} == found.values["made"]
    assert {"one": "1", "two": "2", "three": "3"} == found.values["many"]
    assert "f.yaml:3:3" == found.places[("made", "two")]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: !!python/object/apply:os.system [id]", "f.yaml:1:4: the tag"),
        ("a: !!python/name:os.system", "f.yaml:1:4: the tag"),
        ("a: !!binary aGk=", "f.yaml:1:4: the tag"),
        ("a: !own x", "f.yaml:1:4: the tag"),
        ("a: &a [*a]", "f.yaml:1:8: the anchor 'a' refers to itself"),
        ("a: *gone", "f.yaml:1:4: unknown anchor 'gone'"),
        ("a: 1\nb: 2\na: 3", "f.yaml:3:1: duplicate key 'a', first in line 1"),
        ("a: {b: 1, b: 2}", "f.yaml:1:11: duplicate key 'b'"),
        ("a: 1\n---\nb: 2", "f.yaml:2:1: a second document"),
        ("a:\n\tb: 1", "f.yaml:2:1: not YAML: a tab; use spaces"),
        ("a:\n  b: 1\n\tc: 2", "f.yaml:3:1: not YAML: a tab; use spaces"),
        ("a:\n  b:\n  \tc: 2\n  d: 3", "f.yaml:3:3: not YAML: a tab; use spaces"),
        ("a:\n  - b\n \t- c", "f.yaml:3:2: not YAML: a tab; use spaces"),
        ("a: \t@b", "f.yaml:1:5: not YAML: a value cannot begin so; quote it"),
        ("a:\n  b: @c", "f.yaml:2:6: not YAML: a value cannot begin so; quote it"),
        ("a: b: c", "f.yaml:1:5: not YAML: a ':' too many; quote the value, or begin a new line"),
        ("a: [::1]:9876", "f.yaml:1:5: not YAML: a value cannot begin so; quote it"),
        ("a: [1 2: 3 4", "not YAML: "),
        ("a:\n   b: 1\n  c: 2", "f.yaml:3:3: not YAML: not indented as the key above; indent them alike"),
        ("a: \x00", "f.yaml: not YAML"),
        ("a: [1", "f.yaml:1:4: not YAML: this [ is not closed"),
        ("? [a]\n: b", "f.yaml:1:3: a key must be text"),
        ("- a", "f.yaml:1:1: expected keys and values; write key: value"),
        ("just words", "f.yaml:1:1: expected keys and values"),
        ("a: {<<: 3}", "f.yaml:1:5: << needs keys and values"),
        ("a: " + "[" * (DEPTH_MAX + 1), f"nested deeper than the limit of {DEPTH_MAX}"),
        ("a: " + "[" * 100_000, f"nested deeper than the limit of {DEPTH_MAX}"),
        ("a: &a 1\nb: [" + ", ".join(["*a"] * (ALIASES_MAX + 1)) + "]", f"the limit of {ALIASES_MAX}"),
        (LAUGHS, "more than 100000 values"),
        ("a: " + "x" * BYTES_MAX, f"larger than the limit of {BYTES_MAX} bytes"),
    ],
    ids=lambda value: value[:24] if isinstance(value, str) else None,
)
def test_what_is_refused_has_a_place_and_a_reason(text: str, reason: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parsed(text, "f.yaml")

    assert reason in str(caught.value)
    assert 400 > len(str(caught.value))


def test_a_merge_bomb_is_counted() -> None:
    lines = ["l0: &l0 {a: 1, b: 2}"]
    lines += [f"l{at}: &l{at} {{<<: [{', '.join([f'*l{at - 1}'] * 9)}], k{at}: 1}}" for at in range(1, 12)]

    with pytest.raises(ConfigurationError, match="more than 100000 values"):
        parsed("\n".join(lines), "f.yaml")


@given(st.text(max_size=300))
def test_any_text_is_values_or_one_named_error(text: str) -> None:
    error = None
    try:
        parsed(text, "f.yaml")
    except ConfigurationError as caught:
        error = caught

    assert error is None or str(error).startswith("f.yaml")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("4", "4"),
        ("null", None),
        ("", ""),
        ("[a, b]", ["a", "b"]),
        ("{a: b}", {"a": "b"}),
        ("a: b", "a: b"),
        ("NO", "NO"),
    ],
)
def test_a_value_of_a_variable_is_a_text_unless_it_is_bracketed(text: str, value: object) -> None:
    """What a variable holds can add no keys beside its own."""
    assert value == document.value(text, "$V")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("app: {name: x}\ncluster\nconsumers: {}\n", "f.yaml:2:1"),
        ("app:\n  name x\n  handlers: [a]\n", "f.yaml:2:3"),
        ("app:\n  name x\n\n  # a comment\n  handlers: [a]\n", "f.yaml:2:3"),
        ("app:\n  name: x\n  drain 3s\n", "f.yaml:3:3"),
        ("app:\n  name: x\n  drain 3s\n  budget: 3\n", "f.yaml:3:3"),
        ("app:\n  name: x\nconsumers\n  billing: {}\n", "f.yaml:3:1"),
    ],
)
def test_a_missing_colon_is_blamed_on_its_own_line(text: str, place: str) -> None:
    with pytest.raises(ConfigurationError, match="this key has no ':' after it") as caught:
        parsed(text, "f.yaml")

    assert place == caught.value.place
