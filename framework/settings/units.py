"""Durations and sizes as settings write them: `30s`, `1h30m`, `64MiB`. Owns what a bare number means: nothing.

A duration is held as whole milliseconds, a size as whole bytes. A number without a unit is refused, because half of the
world's settings take it for seconds and the other half for milliseconds.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, get_args

from pydantic import BeforeValidator, WithJsonSchema
from pydantic.fields import FieldInfo

from framework.model import durations

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(B|KiB|MiB|GiB)")
_SIZE_UNIT = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_DIGITS_MAX = 40  # what people write; a longer text is not a number but an attempt on the parser


def duration_ms(value: Any) -> int:
    """Milliseconds of a text such as `30s`; an int is already milliseconds (from Python code, never from a file)."""
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 0:
            raise ValueError("a duration cannot be negative")
        return value
    if not isinstance(value, str) or len(value) > _DIGITS_MAX:
        raise ValueError("write a duration such as 30s, 15m or 1h30m")
    if value.strip().isdigit():
        raise ValueError(f"{value} of what? Write a unit: {value}s, {value}ms or {value}m")
    return durations.to_ms(value)


def size_bytes(value: Any) -> int:
    """Bytes of a text such as `64MiB`; an int is already bytes (from Python code, never from a file)."""
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 0:
            raise ValueError("a size cannot be negative")
        return value
    found = _SIZE.fullmatch(value.strip()) if isinstance(value, str) and len(value) <= _DIGITS_MAX else None
    if found is None:
        raise ValueError("write a size such as 512KiB or 64MiB (units B, KiB, MiB, GiB)")
    return round(float(found[1]) * _SIZE_UNIT[found[2]])


def size_text(count: int) -> str:
    """The form that `size_bytes` reads, in the largest unit that divides it."""
    for unit in ("GiB", "MiB", "KiB"):
        if count and count % _SIZE_UNIT[unit] == 0:
            return f"{count // _SIZE_UNIT[unit]}{unit}"
    return f"{count}B"


def with_unit(value: int, field: FieldInfo) -> str | None:
    """A duration or a size as a file would write it; None where the field holds neither."""
    if _reads(field, duration_ms):
        return durations.to_text(value)
    return size_text(value) if _reads(field, size_bytes) else None


def _reads(field: FieldInfo, reader: object) -> bool:
    """Whether this is how the field's texts are read."""
    return any(isinstance(each, BeforeValidator) and each.func is reader for each in metadata_of(field))


def metadata_of(field: FieldInfo) -> list[Any]:
    """Of the field, and of the types that it is a union of."""
    return [*field.metadata, *(each for kind in get_args(field.annotation) for each in get_args(kind))]


DURATION_PATTERN = r"^\s*(\d+(\.\d+)?(ms|s|m|h|d))+\s*$"
"""For editors; what is out of range is said when the file is read."""
_SIZE_PATTERN = r"^\s*\d+(\.\d+)?\s*(B|KiB|MiB|GiB)\s*$"

Duration = Annotated[int, BeforeValidator(duration_ms), WithJsonSchema({"type": "string", "pattern": DURATION_PATTERN})]
"""Milliseconds in memory; `30s` in a file."""

Size = Annotated[int, BeforeValidator(size_bytes), WithJsonSchema({"type": "string", "pattern": _SIZE_PATTERN})]
"""Bytes in memory; `64MiB` in a file."""
