"""Durations as people write them: `30s`, `15m`, `1h30m`, or a number of seconds."""

from __future__ import annotations

import re
from functools import lru_cache

from framework.errors import shorten

_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
LONGEST_MS = 366 * 86_400_000


def to_ms(value: str | float) -> int:
    """Milliseconds; ValueError, or TypeError, names the value and the forms that are understood."""
    if isinstance(value, str):
        return _read(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{shorten(value)} is not a duration; write 30s, 15m or 1h30m, or a number of seconds")
    return _within(value, value * 1_000)


@lru_cache(maxsize=256)
def _read(written: str) -> int:
    """Cached, since failing messages use the same few delays."""
    text = written.strip()
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{written!r} is not a duration; write 30s, 15m or 1h30m")
    return _within(written, sum(float(number) * _UNIT_MS[unit] for number, unit in parts))


def _within(value: str | float, ms: float) -> int:
    if not 0 <= ms <= LONGEST_MS:
        raise ValueError(f"{value!r} is outside 0 to 366d")
    return round(ms)


def to_text(ms: int) -> str:
    """The shortest of the forms that `to_ms` reads: 90000 -> `1m30s`."""
    if ms == 0:
        return "0s"
    parts = []
    for unit in ("d", "h", "m", "s", "ms"):
        count, ms = divmod(ms, _UNIT_MS[unit])
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts)
