"""The way `breaker`: a group whose handlers may fail all; few failures without a success are a bad deploy there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from framework.testing.sim.streams import Stream
from tests.simulation.workload import GroupLoad, Workload

BREAKABLE = "shipping"
LIMITS = (2, 5, 9)
SHAPES: tuple[dict[str, Any], ...] = ({}, {}, {"batch": 4}, {"orderly": True}, {"orderly": "key"})
PAUSES_S = (0.002, 0.005, 0.02)


def dress(workload: Workload, chance: Stream) -> Workload:
    """One group more, whose messages fail seldom until its deploy."""
    shape: dict[str, Any] = chance.pick(SHAPES)
    load = GroupLoad(
        BREAKABLE, breaker=chance.pick(LIMITS), pauses_s=PAUSES_S, concurrency=chance.pick((1, 4)),
        fail_rate=chance.pick((0.0, 0.02)), poison_rate=0.0, **shape,
    )  # fmt: skip
    others = tuple(each for each in workload.groups if each.name != BREAKABLE)
    return replace(workload, groups=(*others, load))


def goes(workload: Workload, load: GroupLoad) -> bool:
    return bool(load.breaker)
