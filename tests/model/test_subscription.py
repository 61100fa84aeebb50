"""Subscription: the tags a group wants, and the hash by which brokers compare them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.model.subscription import Subscription, java_hash


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        (0, ""),
        (2_598_919, "TagA"),
        (2_598_920, "TagB"),
        (110_118_590, "tag-1"),
        (857_175, "标签"),
        (2_112, "Aa"),
        (2_112, "BB"),
        (-2_147_483_648, "polygenelubricants"),
    ],
)
def test_the_hash_is_that_of_java(expected: int, text: str) -> None:
    """Printed by a JVM."""
    assert expected == java_hash(text)


@settings(deadline=None)
@given(st.text(st.characters(), max_size=40))
def test_the_hash_runs_over_utf_16_units_and_wraps_to_32_bits(text: str) -> None:
    """Astral characters are two units, lone surrogates one."""
    units: list[int] = []
    for point in map(ord, text):
        units += [point] if point < 0x10000 else [0xD7C0 + (point >> 10), 0xDC00 + (point & 0x3FF)]
    total = sum(unit * 31**power for power, unit in enumerate(reversed(units)))

    assert (total + 2**31) % 2**32 - 2**31 == java_hash(text)


@pytest.mark.parametrize(
    ("expected", "expression"),
    [
        ((), "*"),
        ((), " * "),
        ((), ""),
        (("TagA",), "TagA"),
        (("TagA", "TagB"), "TagA || TagB"),
        (("TagA", "TagB"), "TagA||TagB"),
        (("TagA", "TagB"), "  TagA ||  TagB ||"),
        (("b", "a"), "b || a || b"),
        (("a|b",), "a|b"),
    ],
)
def test_an_expression_is_tags_in_order_none_twice(expected: tuple[str, ...], expression: str) -> None:
    assert expected == Subscription("orders", expression).tags


def test_tags_are_announced_by_their_hashes() -> None:
    assert (2_598_919, 2_598_920) == Subscription("orders", "TagA || TagB").tag_hashes
    assert () == Subscription("orders").tag_hashes


@pytest.mark.parametrize(
    ("expected", "expression", "tag"),
    [
        (True, "*", None),
        (True, "*", "anything"),
        (True, "created || paid", "paid"),
        (False, "created || paid", "deleted"),
        (False, "created || paid", None),
        (False, "created || paid", ""),
        (False, "created || paid", "Paid"),
        (True, "Aa", "Aa"),
        (False, "Aa", "BB"),
    ],
)
def test_the_second_check_is_by_text(expression: str, tag: str | None, *, expected: bool) -> None:
    """`Aa` and `BB` share a hash, so the broker lets both through."""
    assert expected is Subscription("orders", expression).matches(tag)


def test_subscriptions_are_values() -> None:
    assert Subscription("orders", "a", 7) == Subscription("orders", "a", 7)
    assert 1 == len({Subscription("orders", "a", 7), Subscription("orders", "a", 7)})
    assert Subscription("orders", "a", 7) != Subscription("orders", "a", 8)
