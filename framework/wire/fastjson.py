"""What RocketMQ's JSON reader, fastjson, makes of values that are no text where a text or a number is expected.

Clients in other languages write `{"queueId":3}` where Java writes `{"queueId":"3"}`, and RocketMQ reads both. Owns the
rules, which were taken from executed results. It knows no header. Left out is what fastjson does by accident: numbers
beyond 32 bits wrap around, and numbers with a large or negative exponent may lose their last digit.
"""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any

from framework.errors import ProtocolError, shorten

INT32_MIN = -0x8000_0000
INT32_MAX = 0x7FFF_FFFF

# The encoder itself looks for every kind of value and at every level; a header has texts on one.
quoted = json.encoder.encode_basestring

DEPTH_MAX = 256  # of values within values; interpreters differ in how deep they would go
_DIGITS_MAX = 40  # of a number that comes as a text; 32 bits have ten
_WORDS = {"": 0, "null": 0, "false": 0, "true": 1}


class Real(str):
    """A number with a point or an exponent, as it was written. `type(value) is str` tells it from a text."""

    __slots__ = ()


def text_of(value: Any) -> str | None:
    """The text that a JSON value is taken for; None for null. RecursionError where it is nested too deeply."""
    kind = type(value)
    if value is None or kind is str:
        return value  # type: ignore[no-any-return]  # one of these two
    if kind is Real:
        return str(_decimal(value)) if _is_plain(value) else _double_text(float(value))
    if kind is list and len(value) == 1 and (value[0] is None or type(value[0]) is str):
        return value[0]  # a list of one text is taken for that text
    return _written(value)


def int32_of(name: str, value: Any) -> int:
    """The 32-bit number that a JSON value is taken for, or ProtocolError. Null is 0, as what is absent."""
    kind = type(value)
    if kind is int:
        number = value
    elif value is None or kind is dict:
        return 0
    elif kind is bool:
        return int(value)
    elif kind is Real:
        number = _whole(name, value)
    elif kind is str:
        number = _WORDS[value] if value in _WORDS else _whole(name, value)
    elif kind is list and len(value) == 1 and (type(value[0]) in {int, Real} or _is_integer(value[0])):
        return int32_of(name, value[0])
    else:
        raise ProtocolError(f"JSON header: {name}={shorten(value)} is not an integer")
    if not INT32_MIN <= number <= INT32_MAX:
        raise ProtocolError(f"JSON header: {name}={shorten(value)} is outside 32 bits")
    return number  # type: ignore[no-any-return]  # an int in each branch


def _whole(name: str, text: str) -> int:
    """The number in a text, without what stands behind its point."""
    is_number = len(text) <= _DIGITS_MAX and text.isascii() and not text[-1:].isspace() and not text[:1].isspace()
    try:
        number = float(text) if is_number and "_" not in text else math.nan
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ProtocolError(f"JSON header: {name}={shorten(text)} is not an integer")
    return math.trunc(number)


def _written(value: Any, depth: int = 0) -> str:
    """A value within another one, as fastjson writes it: no blanks, and nothing where an object holds null."""
    if depth > DEPTH_MAX:
        raise RecursionError
    kind, depth = type(value), depth + 1
    if kind is str:
        return quoted(value)
    if kind is dict:
        pairs = [f"{quoted(key)}:{_written(each, depth)}" for key, each in value.items() if each is not None]
        return "{" + ",".join(pairs) + "}"
    if kind is list:
        return "[" + ",".join([_written(each, depth) for each in value]) + "]"
    if value is None:
        return "null"
    if kind is Real:
        if _is_plain(value):
            return f"{_decimal(value):f}"
        number = float(value)
        return _double_text(number) if math.isfinite(number) else "null"
    return str(value).lower()  # an integer, or true and false


def _is_integer(value: object) -> bool:
    return type(value) is str and value.isascii() and value.removeprefix("-").isdecimal()


def _is_plain(number: Real) -> bool:
    """Whether it has no exponent, or one of 0: fastjson keeps all its digits then."""
    _, _, exponent = number.lower().partition("e")
    return not exponent or not exponent.strip("+-0")


def _decimal(text: str) -> Decimal:
    number = Decimal(text)
    return number or number.copy_abs()  # no zero below zero


def _double_text(number: float) -> str:
    """As Java's Double.toString: plain from 0.001 up to ten millions, else a digit before the point and an exponent."""
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        return repr(number) if "e" not in repr(number) else f"{Decimal(repr(number)):f}"
    sign, digits, exponent = Decimal(repr(number)).as_tuple()
    assert isinstance(exponent, int)  # finite
    shown = "".join(map(str, digits)).rstrip("0")
    return f"{'-' if sign else ''}{shown[0]}.{shown[1:] or '0'}E{exponent + len(digits) - 1}"
