"""Moments: where to begin in a topic, as people write it: `earliest`, `latest`, `-20`, `-2h`, a time, an offset. Pure.

One form for every command that takes such a place. `@` may stand before a time, as in other tools: `@-48h`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from framework.errors import shorten
from framework.model.durations import to_ms


@dataclass(frozen=True, slots=True)
class Moment:
    """One place in each queue. `value` is what `kind` says: nothing, a count, Unix milliseconds, or an offset."""

    kind: Literal["earliest", "latest", "last", "time", "offset"]
    value: int = 0
    text: str = ""
    """As it was written."""

    @property
    def is_ago(self) -> bool:
        """Counted back from this machine's clock."""
        return self.kind == "time" and self.text.removeprefix("@").startswith("-")

    def __str__(self) -> str:
        return self.text or self.kind


FORMS = "earliest, latest, -20 (the last 20), -2h (two hours ago), 2026-11-22T10:00:00Z, or an offset"

DIGITS_MAX = 18


def moment(text: str, now_ms: int) -> Moment:
    """Read it; ValueError says which forms there are. A time without a zone is UTC."""
    word = text.strip()
    if word in ("earliest", "latest"):
        return Moment("earliest" if word == "earliest" else "latest", 0, word)
    bare = word.removeprefix("@")
    if len(bare) > DIGITS_MAX and bare.lstrip("-").isdecimal():
        raise ValueError(f"{shorten(text)} is too large a number; brokers know offsets below 2**63")
    if bare.isdecimal() and bare == word:
        return Moment("offset", int(bare), word)
    if bare.startswith("-"):
        back = bare[1:]
        if back.isdecimal():
            return Moment("last", int(back), word)
        return Moment("time", now_ms - _length_ms(back, text), word)
    try:
        when = datetime.fromisoformat(bare)
    except ValueError:
        raise _unreadable(text) from None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return Moment("time", int(when.timestamp() * 1000), word)


def _length_ms(text: str, whole: str) -> int:
    try:
        return to_ms(text)
    except ValueError:
        raise _unreadable(whole) from None


def _unreadable(text: str) -> ValueError:
    return ValueError(f"{text!r} is no place in a topic; write {FORMS}")
