"""Rate: so many messages in so much time, as settings write it: `100/s`, `30/m`, `1000/h`."""

from __future__ import annotations

import re
from dataclasses import dataclass

_UNIT_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000}
PATTERN = r"^\s*\d{1,9}\s*/\s*[smh]\s*$"
_WRITTEN = re.compile(r"\s*(\d{1,9})\s*/\s*([smh])\s*")


@dataclass(frozen=True, slots=True)
class Rate:
    """`count` messages each `per_ms`."""

    count: int
    per_ms: int

    def __str__(self) -> str:
        unit = next(unit for unit, length in _UNIT_MS.items() if length == self.per_ms)
        return f"{self.count}/{unit}"


def to_rate(text: str) -> Rate:
    """Raises ValueError where it is none."""
    match = _WRITTEN.fullmatch(text, endpos=40)
    if match is None:
        raise ValueError("write a rate such as 100/s, 30/m or 1000/h")
    count = int(match[1])
    if not count:
        raise ValueError("a rate is above 0; to handle nothing, write paused: true")
    return Rate(count, _UNIT_MS[match[2]])
