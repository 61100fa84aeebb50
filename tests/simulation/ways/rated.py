"""The way `rate`: a group may be handed so many messages a second in each process."""

from __future__ import annotations

from dataclasses import replace

from framework.testing.sim.streams import Stream
from tests.simulation.workload import GroupLoad, Workload

LIMITED = "invoices"
RATES, MANY, MANY_RATE = (10, 20), 300, 50
BURSTS = (1, 100)
"""So many are sent at once: more than a rate lets go in seconds."""
PAUSES_S, AT_ONCE = (0.002, 0.005, 0.02), 8
"""Quick handlers and many places: what was let go starts at once, so that starts tell the rate."""


def dress(workload: Workload, chance: Stream) -> Workload:
    """One group more: where messages wait after they were let go (in a batch, behind another one of their key, for a
    store), they may start together.
    """
    load = GroupLoad(LIMITED, rate=chance.pick(RATES), pauses_s=PAUSES_S, concurrency=AT_ONCE, fail_rate=0.02)
    others = tuple(each for each in workload.groups if each.name != LIMITED)
    return replace(workload, groups=(*others, load), burst=max(workload.burst, chance.pick(BURSTS)))


def goes(workload: Workload, load: GroupLoad) -> bool:
    return bool(load.rate)


def rate_of(workload: Workload, load: GroupLoad) -> int:
    """How many a second; more in a run with many messages."""
    return MANY_RATE if load.rate and workload.messages >= MANY else load.rate
