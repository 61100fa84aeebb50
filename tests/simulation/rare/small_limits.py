"""Small limits: each limit of consuming and of the built-in broker, drawn small in a share of the runs.

What happens once a thousand messages wait, or once a minute is over, happens in no short run with the limits that users
have. Each limit draws from a stream of its own, so that a new one changes no draw of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Literal, TypeAlias

from framework.broker import locks, members
from framework.broker.store import writer
from framework.client import routes
from framework.core import limits
from framework.testing.sim.streams import Stream

RUNS = 0.5
"""Of these some limits are small; the others are as users have them."""
SHARE, SELDOM_SHARE = 0.2, 0.4
"""Of those runs; of limits that concern few of them, more."""
Where: TypeAlias = Literal["run", "load", "group", "app", "cluster", "broker", "code"]
"""A field of `Workload`, of each `GroupLoad`, of the settings of each group, of the application or its cluster, of the
broker's settings; or a constant of the code, see `IN_CODE`."""
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


_HEARTBEATS = {
    "heartbeat period": 3_000,
    "silence of a member": 12.0,
    "scan for silent members": 1.0,
    "roll kept": 15_000,
}
LIMITS: tuple[Small, ...] = (
    # Settings
    Small("window", "group", _each("cache_count", 2, 5, 10, 20)),
    Small("topic's window", "group", _each("topic_count", 4, 12)),
    Small("window's bytes", "group", _each("cache_bytes", 600, 2_000)),
    Small("budget", "app", _each("budget", 1_000, 4_000, 16_000)),
    # Each pull uses it up, until all that it brought is done: nothing else is read from brokers meanwhile.
    Small("no budget", "app", _each("budget", 1), in_calm=False, share=SELDOM_SHARE),
    Small("pull", "run", _each("pull_batch", 1, 2, 3, 4)),
    Small("crew", "load", _each("concurrency", 1)),
    Small("retries", "run", _each("max_retries", 0, 1)),
    Small("request", "cluster", _each("request_timeout", 600, 1_200), in_calm=False),
    # The broker's
    Small("offsets saved", "broker", _each("offsets_saved_s", 0.0, 0.02)),
    Small("broker's pull", "broker", _each("pull_count_max", 1, 3)),
    Small("broker's bytes", "broker", _each("pull_bytes_max", 300, 1_000)),
    Small("waiting pulls", "broker", _each("waiting_pulls_max", 2), in_calm=False),
    Small("writes of a group", "code", ({"writes of a group": 2, "rows of a step": 1}, {"writes of a group": 5})),
    # The code's
    Small("flush", "code", _each("flush period", 100, 300)),
    Small("told again", "code", _each("offsets told again", 2_000, 5_000)),
    Small("record bytes", "code", _each("record bytes", 190, 230), share=SELDOM_SHARE),
    Small("small ranges", "code", _each("small ranges", 1, 4), share=SELDOM_SHARE),
    Small("record refresh", "code", _each("record refresh", 2_000)),
    Small("handover", "code", _each("handover wait", 300), in_calm=False),
    Small("take again", "code", _each("take again", 500, 1_500)),
    Small("rounds", "code", ({"rebalance period": 2_000, "member check": 500}, {"member check": 1_500})),
    # Brokers must not forget a member between two of its heartbeats, nor members what a broker listed before it was
    # started anew: that takes six seconds at most, and their way back to it some more.
    Small("heartbeats", "code", (_HEARTBEATS,)),
    Small(
        "send-backs",
        "code",
        (
            {"send-back delay": 300, "longest send-back delay": 1_000},
            {"send-back delay": 30_000, "longest send-back delay": 100_000},
            {"settlers": 1},
        ),
    ),
    # A member trusts a lock for less than half of the broker's time, as it does with the usual ones.
    Small(
        "leases",
        "code",
        ({"lease trust": 5_400, "lease renewal": 2_000, "lease retry": 300, "lock life": 12_000},),
        share=SELDOM_SHARE,
    ),
    Small("turn", "code", _each("turn", 5, 100), share=SELDOM_SHARE),
    Small("long poll", "code", _each("long poll", 700, 2_000)),
    Small("pull bytes", "code", _each("pull bytes", 300, 1_000)),
    Small("asked for alone", "code", _each("records asked for alone", 1, 3)),
    Small("routes", "code", ({"route period": 1.0, "least route period": 0.3}, {"route period": 5.0})),
    Small("standstill", "code", _each("standstill", 8_000)),
)


IN_CODE: Mapping[str, tuple[ModuleType, str]] = {
    "flush period": (limits, "FLUSH_MS"),
    "offsets told again": (limits, "RETELL_MS"),
    "record bytes": (limits, "RECORD_BYTES_MAX"),
    "small ranges": (limits, "RANGES_SMALL"),
    "record refresh": (limits, "RECORD_REFRESH_MS"),
    "handover wait": (limits, "HANDOVER_MS"),
    "take again": (limits, "TAKE_AGAIN_MS"),
    "rebalance period": (limits, "REBALANCE_MS"),
    "member check": (limits, "MEMBER_CHECK_MS"),
    "heartbeat period": (limits, "HEARTBEAT_MS"),
    "roll kept": (limits, "LIST_KEPT_MS"),
    "send-back delay": (limits, "SEND_BACK_DELAY_MS"),
    "longest send-back delay": (limits, "SEND_BACK_DELAY_MAX_MS"),
    "settlers": (limits, "RETRY_SENDERS"),
    "lease trust": (limits, "LEASE_TRUST_MS"),
    "lease renewal": (limits, "LEASE_RENEW_MS"),
    "lease retry": (limits, "LEASE_RETRY_MS"),
    "turn": (limits, "TURN_MS"),
    "long poll": (limits, "LONG_POLL_MS"),
    "pull bytes": (limits, "PULL_BYTES_MAX"),
    "records asked for alone": (limits, "ALONE_MAX"),
    "standstill": (limits, "STANDSTILL_MS"),
    "route period": (routes, "REFRESH_SECONDS"),
    "least route period": (routes, "REFRESH_SECONDS_MIN"),
    "lock life": (locks, "LOCK_LIFE_MS"),
    "silence of a member": (members, "SILENCE_MAX_S"),
    "scan for silent members": (members, "SCAN_S"),
    "writes of a group": (writer, "GROUP_ROWS_MAX"),
    "rows of a step": (writer, "STEP_ROWS"),
}
"""The module and the constant of each. The code reads it there when it acts, so it is small for the length of a run."""


@contextmanager
def small_in_code(small: SmallLimits) -> Iterator[None]:
    """The code's limits as the run has them; as they were, when it ends."""
    usual = [(module, name, getattr(module, name)) for module, name in IN_CODE.values()]
    try:
        for limit, value in small.of("code").items():
            setattr(*IN_CODE[limit], value)
        yield
    finally:
        for module, name, value in usual:
            setattr(module, name, value)


WINDOWS = frozenset({"window", "topic's window", "window's bytes", "budget", "no budget"})
"""What a handler that commits by hand must not fill with messages that it has handled and not committed: it is given no
further one then, with which it could commit."""


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


def draw_limits(
    chance: Callable[[str], Stream], *, is_calm: bool, spares: Collection[str] = frozenset()
) -> SmallLimits:
    """`chance` answers each limit's own stream, by its name. Those that the run `spares` stay as they are."""
    if not chance("limits").happens(RUNS):
        return SmallLimits()
    drawn = []
    for small in LIMITS:
        own = chance(f"limit/{small.name}")
        is_drawn, choice = own.happens(small.share), own.pick(small.choices)
        if is_drawn and small.name not in spares and (small.in_calm or not is_calm):
            drawn.append((small.name, small.where, tuple(choice.items())))
    return SmallLimits(tuple(drawn))
