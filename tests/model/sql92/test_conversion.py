"""Java's reading of numbers, and its order of them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.model.sql92.conversion import INTEGER_MAX, LONG_MAX, Long, Operand, order, to_double, to_whole


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5), (" 5\n", 5), ("\x005", 5), ("+5", 5), ("-5.", -5), (".5", 0.5), ("5e3", 5000), ("5E-1f", 0.5),
        ("5d", 5), ("5F", 5),
        ("Infinity", math.inf), ("+Infinity", math.inf), ("-Infinity", -math.inf), ("1e400", math.inf), ("-1e400",
        -math.inf),
        ("1e-400", 0), ("0x1p3", 8), ("-0x.8P-1d", -0.25), ("0xA.p0", 10), ("0x1p9999999999", math.inf),
        ("-0x1p9999999999", -math.inf),
    ],
)  # fmt: skip
def test_doubles_are_read_as_java_reads_them(text: str, value: float) -> None:
    assert value == to_double(text)


@pytest.mark.parametrize(
    "text", ["", " ", ".", "e5", "5e", "1_0", "inf", "nan", "NaNf", "0x1", "0x.p1", "5 5", "５", "\u00a05", "--5"]
)
def test_other_texts_are_no_doubles(text: str) -> None:
    with pytest.raises(ValueError, match="not a double"):
        to_double(text)


@given(st.floats())
def test_every_double_is_read_back(value: float) -> None:
    text = repr(value).replace("inf", "Infinity").replace("nan", "NaN")

    assert 0 == order(value, to_double(text))


@pytest.mark.parametrize(
    ("text", "value"),
    [("5", 5), ("+5", 5), ("-5", -5), ("007", 7), ("0", 0), ("-0", 0), ("٥", 5), ("-５", -5), ("0" * 9_000 + "1", 1)],
)
def test_whole_numbers_are_read_as_java_reads_them(text: str, value: int) -> None:
    assert value == to_whole(text, INTEGER_MAX)


@pytest.mark.parametrize("text", ["", "+", "-", "+-5", " 5", "5 ", "5.0", "1_0", "5L", "x", "𝟓", "9" * 9_000])
def test_other_texts_are_no_whole_numbers(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a whole number|out of range"):
        to_whole(text, LONG_MAX)


@pytest.mark.parametrize("maximum", [INTEGER_MAX, LONG_MAX])
def test_whole_numbers_have_javas_ranges(maximum: int) -> None:
    assert maximum == to_whole(str(maximum), maximum)
    assert -maximum - 1 == to_whole(str(-maximum - 1), maximum)
    for beyond in (maximum + 1, -maximum - 2):
        with pytest.raises(ValueError, match="out of range"):
            to_whole(str(beyond), maximum)


@pytest.mark.parametrize(
    ("left", "right", "sign"),
    [
        (1, 2, -1), (2, 1, 1), (2, 2, 0), (1, Long(3_000_000_000), -1), (1, 1.0, 0), (2**53 + 1, float(2**53), 0),
        (1.5, 2, -1),
        ("a", "b", -1), ("b", "a", 1), ("a", "a", 0), ("10", 9, 1), (9, "10", -1), ("1e1", 10.0, 0), ("5", Long(5), 0),
        (True, False, 1), (False, False, 0), ("TRUE", True, 0), ("x", False, 0), ("x", True, -1), (True, 1, -1),
        (1, True, -1),
        (-0.0, 0.0, -1), (0.0, -0.0, 1), (math.nan, math.nan, 0), (math.nan, math.inf, 1), (-math.inf, math.nan, -1),
        ("NaN", 1.0, 1),
    ],
)  # fmt: skip
def test_operands_are_ordered_as_java_orders_them(left: Operand, right: Operand, sign: int) -> None:
    found = order(left, right)

    assert sign == (found > 0) - (found < 0)


@pytest.mark.parametrize(
    ("left", "right"), [("x", 1), (1, "x"), ("1.0", 1), ("3000000000", 1), (1.0, "x"), (True, "true")]
)
def test_what_java_throws_at_is_a_value_error(left: Operand, right: Operand) -> None:
    with pytest.raises(ValueError):
        order(left, right)
