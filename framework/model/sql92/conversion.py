"""How RocketMQ compares two operands of a filter: Java's classes, Java's reading of numbers, Java's order of doubles.

A property is always text; the operand beside it decides what the text is read as. A ValueError here is what Java throws
while it evaluates: the message is not delivered, whatever stands around the comparison.
"""

from __future__ import annotations

import math
import re
import unicodedata
from functools import lru_cache
from typing import TypeAlias

INTEGER_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1


class Long(int):
    """A literal beyond Java's int. Its class decides how a text beside it is read, so it must be kept."""

    __slots__ = ()


Operand: TypeAlias = str | bool | int | float
Value: TypeAlias = Operand | None
"""None is Java's null: unknown."""

# Double.valueOf trims what String.trim trims: everything up to the blank.
_BLANKS = "".join(map(chr, range(33)))
# Fixed patterns without two ways to match the same digits: linear, whatever the text.
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?")
_HEX = re.compile(r"[+-]?0[xX](?:[0-9a-fA-F]+(?:\.[0-9a-fA-F]*)?|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+[fFdD]?")
_NAMED = {
    sign + name: value
    for sign in ("", "+", "-")
    for name, value in (("NaN", math.nan), ("Infinity", -math.inf if sign == "-" else math.inf))
}


def order(left: Operand, right: Operand) -> int:
    """Negative, 0 or positive. Raises ValueError where Java throws."""
    if isinstance(left, bool) or isinstance(right, bool):
        return _truth_order(left, right)
    if isinstance(left, str):
        if isinstance(right, str):
            return (left > right) - (left < right)
        left = _read_as(right, left)
    elif isinstance(right, str):
        right = _read_as(left, right)
    if isinstance(left, float) or isinstance(right, float):
        return _double_order(float(left), float(right))
    return (left > right) - (left < right)


def to_double(text: str) -> float:
    """`Double.valueOf`."""
    value = _double_of(text)
    if value is None:
        raise ValueError("not a double")
    return value


# A property is compared again and again while a condition is asked of its message, and may have 32,000 digits. All
# properties of a message together are no longer, so what these keep has a bound.
@lru_cache(maxsize=64)
def _double_of(text: str) -> float | None:
    trimmed = text.strip(_BLANKS)
    if trimmed in _NAMED:
        return _NAMED[trimmed]
    if _DECIMAL.fullmatch(trimmed):
        return float(trimmed.rstrip("fFdD"))
    if _HEX.fullmatch(trimmed):
        try:
            return float.fromhex(trimmed.rstrip("fFdD"))
        except OverflowError:
            return -math.inf if trimmed[0] == "-" else math.inf
    return None


def to_whole(text: str, maximum: int) -> int:
    """`Integer.valueOf` and `Long.valueOf`: no blanks, a sign, digits of any script, no leap over the class's range."""
    value = _whole_of(text)
    if value is None:
        raise ValueError("not a whole number")
    if not -maximum - 1 <= value <= maximum:
        raise ValueError("out of range")
    return value


@lru_cache(maxsize=64)
def _whole_of(text: str) -> int | None:
    """None for what is no number; one that is too long is as good as any that is in no class's range."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits.isdecimal():
        return None
    if not digits.isascii():
        if max(digits) > "\uffff":  # Java reads these digits as two halves, and neither is one
            return None
        digits = "".join(str(unicodedata.decimal(digit)) for digit in digits)
    digits = digits.lstrip("0")
    if len(digits) > len(str(LONG_MAX)):  # before int(), which takes its time over a long text
        return LONG_MAX + 2
    return -int(digits or "0") if text[0] == "-" else int(digits or "0")


def _read_as(other: Operand, text: str) -> float:
    """The text as the class of the operand beside it."""
    if isinstance(other, int):
        return to_whole(text, LONG_MAX if isinstance(other, Long) else INTEGER_MAX)
    return to_double(text)


def _truth_order(left: Operand, right: Operand) -> int:
    if isinstance(left, str):
        left = len(left) == 4 and left.lower() == "true"
    elif isinstance(left, bool) and isinstance(right, str):
        # RocketMQ casts the wrong side here, so TRUE = flag always fails where flag = TRUE works.
        raise ValueError("a truth value stands on the left of a text")  # noqa: TRY004 - as all that Java throws
    if isinstance(left, bool) and isinstance(right, bool):
        return left - right
    return -1  # a number beside a truth value is less than it, and it less than the number


def _double_order(left: float, right: float) -> int:
    """`Double.compareTo`: NaN equals itself above all others, and -0.0 is less than 0.0."""
    if left < right:
        return -1
    if left > right:
        return 1
    return _rank(left) - _rank(right)


def _rank(value: float) -> int:
    """Tells apart what `<` and `>` do not."""
    if math.isnan(value):
        return 2
    return 0 if value == 0 and math.copysign(1, value) < 0 else 1
