"""Words: how a page says a figure, a state, a time and a body. Pure. What is not known is `-`, never 0."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from framework.cli import table
from framework.harmless import plain

UNKNOWN = table.UNKNOWN
BODY_MAX = 64 * 1024
"""Of a body, that a page shows."""
HEX_MAX = 4096


@dataclass(frozen=True, slots=True)
class State:
    """A word, a sign, and a colour (`tone`): nobody needs the colour."""

    word: str
    sign: str
    tone: str


FLOWS = State("up to date", "=", "good")
BEHIND = State("behind", "~", "note")
GROWING = State("growing", "!", "bad")
FAILING = State("failing", "!", "bad")
HELD = State("held", "!", "bad")
HANGING = State("hanging", "!", "bad")
STANDING = State("stands still", "!", "bad")
DEAD_LETTERS = State("dead letters", "!", "bad")
RETRYING = State("retrying", "~", "note")
PAUSED = State("paused", "P", "note")
NOBODY = State("no member", "-", "idle")
ABANDONED = State("no member", "!", "bad")
UNKNOWN_STATE = State("unknown", "?", "note")
NO_OWNER = State("no owner", "-", "note")
OF_HEALTH = {
    "unknown": UNKNOWN_STATE, "held": HELD, "failing": FAILING, "hanging": HANGING, "no member": ABANDONED,
    "paused": PAUSED, "dead letters": DEAD_LETTERS, "retrying": RETRYING, "behind": BEHIND, "up to date": FLOWS,
    "nobody": NOBODY,
}  # fmt: skip
"""What `groups` calls it, with its sign and colour."""
FLOWING = State("flows", "=", "good")


def text(value: Any) -> Any:
    """What any `{{ value }}` of a page passes: nothing that a producer chose moves what stands beside it."""
    if value is None:
        return UNKNOWN
    if type(value) is str:
        return plain(value, keep="\n\t")
    return value


def line(value: Any, most: int = 120) -> str:
    """A text of somebody's in one line, cut."""
    told = UNKNOWN if value is None or value == "" else plain(str(value))
    return told if len(told) <= most else f"{told[: most - 1]}…"


def some(number: int | None, thing: str) -> str:
    return f"{UNKNOWN} {thing}s" if number is None else table.some(number, thing)


def count(number: float | None) -> str:
    return UNKNOWN if number is None else f"{number:,.0f}"


def rate(number: float | None) -> str:
    """Per second."""
    if number is None:
        return UNKNOWN
    return f"{number:,.0f}" if number >= 10 or not number else _tenths(number)


def _tenths(number: float) -> str:
    """What is not 0 does not look like it."""
    return "<0.1" if 0 < number < 0.05 else f"{number:.1f}"


def age(seconds: float | None) -> str:
    return UNKNOWN if seconds is None else table.age(seconds)


def age_ms(ms: float | None) -> str:
    return UNKNOWN if ms is None else table.age(ms / 1000)


def milliseconds(ms: float | None) -> str:
    if ms is None:
        return UNKNOWN
    return f"{ms:,.0f} ms" if ms >= 10 else f"{_tenths(ms)} ms"


def instant(ms: int | None) -> str:
    """With its day, in UTC."""
    return UNKNOWN if not ms else table.instant(ms)


def stamp(ms: int | None) -> str:
    """To the second, with its day: a list may hold what is days old."""
    return instant(ms).partition(".")[0].replace("T", " ")


def clock(ms: int | None) -> str:
    """The time of the day, in UTC."""
    return stamp(ms).rpartition(" ")[2]


def size(number: int) -> str:
    return f"{number:,} B" if number < 10_000 else f"{number / 1024:,.1f} KiB"


@dataclass(frozen=True, slots=True)
class Shown:
    """A body as text."""

    kind: str
    """JSON, text, or bytes."""
    text: str
    size: int
    cut: bool = False
    trouble: str = ""


def body(content: bytes, trouble: str = "") -> Shown:
    """JSON with its lines, other text as it is, anything else as bytes in hexadecimal."""
    if trouble:
        return Shown("not readable", "", 0, trouble=trouble)
    try:
        told = content.decode()
    except UnicodeDecodeError:
        return Shown("bytes", _hex(content[:HEX_MAX]), len(content), cut=len(content) > HEX_MAX)
    kind = "text"
    if len(content) <= BODY_MAX:
        with suppress(ValueError, RecursionError):
            told, kind = json.dumps(json.loads(told), ensure_ascii=False, indent=2), "JSON"
    return Shown(kind, told[:BODY_MAX], len(content), cut=len(told) > BODY_MAX)


def _hex(content: bytes) -> str:
    lines = []
    for at in range(0, len(content), 16):
        piece = content[at : at + 16]
        seen = "".join(chr(each) if 32 <= each < 127 else "." for each in piece)
        lines.append(f"{at:06x}  {piece.hex(' '):<47}  {seen}")
    return "\n".join(lines)


# A line over time

WIDTH, HEIGHT = 240, 36


@dataclass(frozen=True, slots=True)
class Spark:
    """One figure over time as an inline SVG: pieces of a line, broken where nothing is known."""

    title: str
    unit: str
    pieces: tuple[str, ...]
    area: str
    last: str
    top: str
    span: str
    tone: str = "plain"

    @property
    def said(self) -> str:
        """For whoever does not see it."""
        return f"{self.title}: {self.last}{self.unit} now, {self.top}{self.unit} at most in {self.span}"


def spark(
    title: str,
    points: Sequence[tuple[int, float | None]],
    *,
    unit: str = "",
    show: Any = rate,
    tone: str = "plain",
) -> Spark:
    """`points`: when, in Unix milliseconds, and how much."""
    known = [value for _, value in points if value is not None]
    top = max(known, default=0.0)
    first, last = (points[0][0], points[-1][0]) if points else (0, 0)
    span, scale = max(last - first, 1), top or 1.0
    runs: list[list[tuple[float, float]]] = [[]]
    for at, value in points:
        if value is None:
            runs.append([])
        else:
            x = (at - first) / span * WIDTH if last > first else WIDTH
            runs[-1].append((x, HEIGHT - 2 - value / scale * (HEIGHT - 5)))
    pieces = tuple(" ".join(f"{x:.1f},{y:.1f}" for x, y in run) for run in runs if len(run) > 1)
    final = next((run for run in reversed(runs) if len(run) > 1), [])
    area = ""
    if final:
        area = f"{final[0][0]:.1f},{HEIGHT} {pieces[-1]} {final[-1][0]:.1f},{HEIGHT}"
    return Spark(
        title,
        unit,
        pieces,
        area,
        show(points[-1][1] if points else None),
        show(top if known else None),
        table.age(span / 1000) if last > first else "no time yet",
        tone,
    )
