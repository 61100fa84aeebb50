"""What RocketMQ's JSON reader, fastjson, makes of values of another kind than is expected, in headers and in bodies.

Clients in other languages write `{"queueId":3}` where Java writes `{"queueId":"3"}`, or the number of an enum, and
RocketMQ reads both. Owns the rules, which were taken from executed results. It knows no header and no body. Left out
is what fastjson does by accident: numbers that are too large wrap around or become the largest one, numbers with a
large or negative exponent may lose their last digit, `"1,000"` is 1000, and a date is a number.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from decimal import Decimal
from functools import cache
from typing import Any, Self

from framework.errors import ProtocolError, shorten

INT32_MIN = -0x8000_0000
INT32_MAX = 0x7FFF_FFFF

# The encoder itself looks for every kind of value and at every level; a header has texts on one.
quoted = json.encoder.encode_basestring

DEPTH_MAX = 256  # of values within values; interpreters differ in how deep they would go
_DIGITS_MAX = 40  # of a number that comes as a text; 32 bits have ten
_WORDS = {"": None, "null": None, "false": 0, "true": 1}
_TRUTHS = {"": None, "null": None, "NULL": None, "Y": True, "1": True, "N": False, "0": False}


class Real(float):
    """A number with a point or an exponent, and as it was written: a double does not have all its digits."""

    __slots__ = ("text",)

    text: str

    def __new__(cls, text: str) -> Self:
        made = super().__new__(cls, text)
        made.text = text
        return made


def text_of(value: Any) -> str | None:
    """The text that a JSON value is taken for; None for null. RecursionError where it is nested too deeply."""
    kind = type(value)
    if value is None or kind is str:
        return value  # type: ignore[no-any-return]  # one of these two
    if kind is Real:
        return str(_decimal(value.text)) if _is_plain(value.text) else _double_text(value)
    if kind is list and len(value) == 1 and (value[0] is None or type(value[0]) is str):
        return value[0]  # a list of one text is taken for that text
    return _written(value)


def int32_of(name: str, value: Any) -> int:
    """The 32-bit number that a value in a header is taken for, or ProtocolError. Null is 0, as what is absent."""
    if type(value) is int and INT32_MIN <= value <= INT32_MAX:
        return value
    return integer_of(value, f"JSON header: {name}", 32) or 0


def integer_of(value: Any, place: str, bits: int = 64) -> int | None:
    """The number that a value is taken for, or ProtocolError; None for null and for texts that mean it."""
    kind = type(value)
    if kind is int:
        number = value
    elif value is None:
        return None
    elif kind is bool:
        return int(value)
    elif kind is str and value in _WORDS:
        return _WORDS[value]
    elif kind is str or kind is Real:
        number = _whole(place, value if kind is str else value.text)
    elif kind is dict and bits == 32:
        return 0
    elif kind is list and len(value) == 1 and (type(value[0]) in {int, Real} or _is_integer(value[0])):
        return integer_of(value[0], place, bits)
    else:
        raise ProtocolError(f"{place}={shorten(value)} is not an integer")
    if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
        raise ProtocolError(f"{place}={shorten(value)} is outside {bits} bits")
    return number  # type: ignore[no-any-return]  # an int in each branch


def boolean_of(value: Any, place: str) -> bool | None:
    """True, false, or None for null; of numbers, 1 and -1 are true."""
    kind = type(value)
    if kind is bool or value is None:
        return value  # type: ignore[no-any-return]  # one of these
    if kind is int:
        return value in {1, -1}
    if kind is Real:
        return False
    if kind is str and (value in _TRUTHS or value.lower() in {"true", "false"}):
        return _TRUTHS[value] if value in _TRUTHS else value.lower() == "true"
    if kind is list and len(value) == 1:
        return boolean_of(value[0], place)
    raise ProtocolError(f"{place}={shorten(value)} is not a boolean")


def double_of(value: Any, place: str) -> float | None:
    """A finite number, or ProtocolError; None for null."""
    kind = type(value)
    if value is None:
        return None
    if kind is list and len(value) == 1 and type(value[0]) in {int, Real, str}:
        return double_of(value[0], place)
    if kind in {list, dict} and not value:
        return 0.0
    if kind is str and value in _WORDS:
        word = _WORDS[value]
        return None if word is None else float(word)
    if kind in {bool, int, Real} or (
        kind is str and len(value) <= _DIGITS_MAX and value.isascii() and "_" not in value
    ):
        try:
            number = float(value)
        except (OverflowError, ValueError):
            number = math.nan
        if math.isfinite(number):
            return number
    raise ProtocolError(f"{place}={shorten(value)} is not a finite number")


def enum_of(place: str, value: Any, names: Sequence[str]) -> str | None:
    """One of these names, which stand in the order of their numbers: by name, whatever its case, or by number.

    None for null and for a name that is unknown, as RocketMQ has it; a number that none has is a ProtocolError.
    """
    kind = type(value)
    if value is None:
        return None
    if kind is str:
        known = _folded(tuple(names)).get(_fold(value))
        if known is not None or not (value.isascii() and value.isdecimal()):
            return known
        number = integer_of(value, place, 32) or 0
        return names[number] if number < len(names) else None
    if kind in {int, Real}:
        number = integer_of(value, place, 32) or 0
        if 0 <= number < len(names):
            return names[number]
    raise ProtocolError(f"{place}={shorten(value)} is none of {', '.join(names)}")


@cache
def _folded(names: tuple[str, ...]) -> dict[str, str]:
    return {_fold(name): name for name in names}


def _fold(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def _whole(place: str, text: str) -> int:
    """The number in a text, without what stands behind its point."""
    is_number = len(text) <= _DIGITS_MAX and text.isascii() and not text[-1:].isspace() and not text[:1].isspace()
    try:
        number = float(text) if is_number and "_" not in text else math.nan
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ProtocolError(f"{place}={shorten(text)} is not an integer")
    if abs(number) < 1:
        return 0  # its exponent may be one that Decimal does not take
    # A double has not all the digits of 64 bits; what is far beyond them is refused by its range, whatever its digits.
    return int(Decimal(text)) if abs(number) < 2.0**64 else math.trunc(number)


def _written(value: Any, depth: int = 0) -> str:
    """A value within another one, as fastjson writes it: no blanks, and nothing where an object holds null."""
    if depth > DEPTH_MAX:
        raise RecursionError
    kind, depth = type(value), depth + 1
    if kind is str:
        return quoted(value)
    if kind is dict:
        pairs = [f"{_name(key, depth)}:{_written(each, depth)}" for key, each in value.items() if each is not None]
        return "{" + ",".join(pairs) + "}"
    if kind is list:
        return "[" + ",".join([_written(each, depth) for each in value]) + "]"
    if value is None:
        return "null"
    if kind is Real:
        if _is_plain(value.text):
            return f"{_decimal(value.text):f}"
        return _double_text(value) if math.isfinite(value) else "null"
    return str(value).lower()  # an integer, or true and false


def _name(key: Any, depth: int) -> str:
    """Java's dialect has numbers and objects as keys, too (`dialect.py`)."""
    return quoted(key if type(key) is str else _written(key if type(key) is int else dict(key), depth))


def _is_integer(value: object) -> bool:
    return type(value) is str and value.isascii() and value.removeprefix("-").isdecimal()


def _is_plain(text: str) -> bool:
    """Whether it has no exponent, or one of 0: fastjson keeps all its digits then."""
    _, _, exponent = text.lower().partition("e")
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
