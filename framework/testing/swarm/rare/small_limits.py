"""Small limits: each limit of consuming and of the built-in broker, drawn small in a share of the runs.

What happens once a thousand messages wait, or once a minute is over, happens in no short run with the limits that users
have. Each limit draws from a stream of its own, so that a new one changes no draw of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from framework.testing.sim.streams import Stream

RUNS = 0.5
"""Of these some limits are small; the others are as users have them."""
SHARE = 0.2
Where: TypeAlias = Literal["run", "load", "group", "app", "cluster", "broker", "code"]
"""A field of `Workload`, of each `GroupLoad`, of the settings of each group, of the application or its cluster, of the
broker's settings; or a `marks.limit` in the code."""
Value: TypeAlias = int | float
Choice: TypeAlias = Mapping[str, Value]
"""Limits that hang together are drawn together."""


@dataclass(frozen=True, slots=True)
class Small:
    """One limit, or some that hang together."""

    name: str
    where: Where
    choices: tuple[Choice, ...]
    in_calm: bool = True
    """Whether a calm run keeps its promises with it: that queues are handed over in time, and nothing comes twice."""
    share: float = SHARE


def _each(name: str, *values: Value) -> tuple[Choice, ...]:
    return tuple({name: value} for value in values)


LIMITS: tuple[Small, ...] = (
    # Settings
    Small("window", "group", _each("cache_count", 2, 5, 10, 20)),
    Small("topic's window", "group", _each("topic_count", 4, 12)),
    Small("window's bytes", "group", _each("cache_bytes", 600, 2_000)),
    Small("budget", "app", _each("budget", 1_000, 4_000, 16_000)),
    Small("pull", "run", _each("pull_batch", 1, 2, 3, 4)),
    Small("crew", "load", _each("concurrency", 1)),
    Small("retries", "run", _each("max_retries", 0, 1)),
    Small("request", "cluster", _each("request_timeout", 600, 1_200), in_calm=False),
    # The broker's
    Small("offsets saved", "broker", _each("offsets_saved_s", 0.0, 0.02)),
    Small("broker's pull", "broker", _each("pull_count_max", 1, 3)),
    Small("broker's bytes", "broker", _each("pull_bytes_max", 300, 1_000)),
    Small("waiting pulls", "broker", _each("waiting_pulls_max", 2), in_calm=False),
)


@dataclass(frozen=True, slots=True)
class SmallLimits:
    """A run's. Each value by where it goes."""

    drawn: tuple[tuple[str, Where, tuple[tuple[str, Value], ...]], ...] = ()

    def of(self, where: Where) -> dict[str, Value]:
        return {name: value for _, place, values in self.drawn if place == where for name, value in values}

    def without(self, name: str) -> SmallLimits:
        """As if this one had not been drawn: of a failing run, whether it still fails."""
        return SmallLimits(tuple(each for each in self.drawn if each[0] != name))

    @property
    def names(self) -> list[str]:
        return [name for name, _, _ in self.drawn]

    def __str__(self) -> str:
        values = (f"{name}={value:g}" for _, _, limits in self.drawn for name, value in limits)
        return ",".join(each.replace(" ", "-") for each in values) or "none"


def draw_limits(chance: Callable[[str], Stream], *, is_calm: bool) -> SmallLimits:
    """`chance` answers each limit's own stream, by its name."""
    if not chance("limits").happens(RUNS):
        return SmallLimits()
    drawn = []
    for small in LIMITS:
        own = chance(f"limit/{small.name}")
        is_drawn, choice = own.happens(small.share), own.pick(small.choices)
        if is_drawn and (small.in_calm or not is_calm):
            drawn.append((small.name, small.where, tuple(choice.items())))
    return SmallLimits(tuple(drawn))
