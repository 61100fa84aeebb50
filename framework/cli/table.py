"""Tables for people: aligned on a terminal, the same plain text in a pipe, one JSON object a line for programs.

A value that is not known is `-` in a table and null in JSON, never 0.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from framework.cli import output
from framework.cli.output import Painted
from framework.harmless import plain

UNKNOWN = "-"
YEAR_10000_MS = 253_402_300_800_000
_BOLD, _RED, _YELLOW, _PLAIN = "\x1b[1m", "\x1b[31m", "\x1b[33m", "\x1b[0m"


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its title, the field that it shows, and how."""

    title: str
    field: str
    show: Callable[[Any], str] = str
    is_number: bool = False


PLACE = (
    Column("TOPIC", "topic"),
    Column("BROKER", "broker"),
    Column("QUEUE", "queue", is_number=True),
)
"""Which queue a row is about."""


def has_colour() -> bool:
    """Whether the terminal shows colours: it is one, and nobody has switched them off (no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def bold(text: str) -> Painted:
    return _painted(_BOLD, text)


def alarm(text: str) -> Painted:
    """What somebody must see to now."""
    return _painted(_RED, text)


def caution(text: str) -> Painted:
    """What somebody should look at."""
    return _painted(_YELLOW, text)


def _painted(colour: str, text: str) -> Painted:
    return Painted(f"{colour}{plain(text)}{_PLAIN}" if has_colour() else plain(text))


def lines_of(columns: Sequence[Column], rows: Iterable[dict[str, Any]]) -> list[str]:
    """The table as lines, its title first; only the title where there is no row."""
    shown = [[_cell(column, row.get(column.field)) for column in columns] for row in rows]
    widths = [max([len(column.title), *(len(cells[index]) for cells in shown)]) for index, column in enumerate(columns)]
    title = _line([column.title for column in columns], columns, widths)
    return [bold(title), *(_line(cells, columns, widths) for cells in shown)]


def write(columns: Sequence[Column], rows: Iterable[dict[str, Any]]) -> None:
    """The table on stdout."""
    for line in lines_of(columns, rows):
        output.say(line)


def write_json(rows: Iterable[dict[str, Any]]) -> None:
    """One object a line on stdout."""
    for row in rows:
        output.say(output.as_json(row))


def _cell(column: Column, value: Any) -> str:
    return UNKNOWN if value is None else plain(column.show(value))


def _line(cells: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> str:
    aligned = (
        f"{cell:>{width}}" if column.is_number else f"{cell:<{width}}"
        for cell, column, width in zip(cells, columns, widths, strict=True)
    )
    return "  ".join(aligned).rstrip()


def count(number: int) -> str:
    """12,310: what people read and compare."""
    return f"{number:,}"


def rate(number: float) -> str:
    """Of what comes in a second: 0.2, 3.5, 1,204."""
    return f"{number:,.0f}" if number >= 10 or not number else f"{max(number, 0.1):.1f}"


def some(number: int, thing: str) -> str:
    """`1 group`, `3 groups`."""
    return f"{count(number)} {thing}{'s' * (number != 1)}"


def age(seconds: float) -> str:
    """14m 2s: two units at most, whole."""
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms" if seconds else "0s"
    left = int(seconds)
    parts = []
    for name, size in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        amount, left = divmod(left, size)
        if amount:
            parts.append(f"{amount}{name}")
    return " ".join(parts[:2])


def instant(ms: int) -> str:
    """Unix milliseconds as ISO 8601 in UTC. Producers choose some: what no calendar has stays a number."""
    if not 0 <= ms < YEAR_10000_MS:
        return f"{ms} ms"
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


MOVED = (
    Column("BEFORE", "before", count, is_number=True),
    Column("AFTER", "after", count, is_number=True),
)
"""Where a group's offset was, and where it goes."""
