"""Subscription: what a group wants from a topic, as heartbeats announce it and pulls repeat it; and where it starts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

EVERYTHING = "*"
BLANKS = "".join(map(chr, range(ord(" ") + 1)))
"""What Java's `trim` takes away around a tag."""
BY_TAG: Literal["TAG"] = "TAG"
BY_SQL: Literal["SQL92"] = "SQL92"


@dataclass(frozen=True, slots=True)
class Start:
    """Where a new group starts: at the oldest message, at the end (as Java by default), at a time, or at an age."""

    policy: Literal["first", "last", "time", "age"]
    ms: int = 0
    """Unix milliseconds of a time, by the broker's clock; milliseconds of an age."""


def java_hash(text: str) -> int:
    """Java's String.hashCode, by which brokers filter tags: 31-polynomial over UTF-16 units, as a signed int32."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        value = (31 * value + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return value - 0x1_0000_0000 if value & 0x8000_0000 else value


@dataclass(frozen=True, slots=True)
class Subscription:
    """Tags joined by `||`, or `*` for all; or an SQL92 condition on properties, which brokers alone check.

    The version is the clock's reading when it was made: newer wins.
    """

    topic: str
    expression: str = EVERYTHING
    version: int = 0
    kind: Literal["TAG", "SQL92"] = BY_TAG
    tags: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        if self.kind != BY_TAG:
            object.__setattr__(self, "tags", ())
            return
        tags = tuple(part.strip(BLANKS) for part in self.expression.split("||"))
        wanted = () if self.expression.strip(BLANKS) == EVERYTHING else tuple(dict.fromkeys(tag for tag in tags if tag))
        object.__setattr__(self, "tags", wanted)

    @property
    def tag_hashes(self) -> tuple[int, ...]:
        return tuple(java_hash(tag) for tag in self.tags)

    def matches(self, tag: str | None) -> bool:
        """The second check, by text: the broker compares hashes, and two tags may share one."""
        return not self.tags or tag in self.tags
