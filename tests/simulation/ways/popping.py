"""The ways `pop` and `pop-switched`: one group more, whose members pop what the others pull.

Its handlers do what the others' do, and now and then take longer than the invisible time. It owns no queues and keeps
no offsets, so its facts are of other kinds (`ways/facts.py`), and so are its truths (`checkers/pops_hold.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from framework.broker.node import Node
from framework.broker.pops import POP, PULL, Mode
from framework.testing.sim.streams import Stream
from tests.simulation.workload import GroupLoad, Workload

__all__ = ["INVISIBLE_S", "POP", "PULL", "choose", "dress", "dress_switched", "goes", "is_switched", "prepare"]

GROUP = "couriers"
INVISIBLE_S = 5.0
"""The shortest there is: what a member that ends has held comes back within a run."""
PAUSES_S = (0.002, 0.005, 0.02, 0.02, 0.1, 0.1, 0.1, 3.0)
STUCK_S = 12.0
"""A handler may take longer than what it is given is invisible."""


def dress(workload: Workload, chance: Stream) -> Workload:
    return _with(workload, _load(chance))


def dress_switched(workload: Workload, chance: Stream) -> Workload:
    """Its brokers say how it takes messages: by popping, until an administrator says otherwise."""
    return _with(workload, _load(chance, is_switched=True))


def goes(workload: Workload, load: GroupLoad) -> bool:
    return load.pops == "pop"


def is_switched(workload: Workload, load: GroupLoad) -> bool:
    return load.pops == "broker"


def prepare(nodes: Sequence[Node], workload: Workload) -> None:
    """Say it before the first member asks; what an administrator has said since stays."""
    for node in nodes:
        for load, topic in _switched(workload):
            if node.pops.modes.get(load.name, topic) == Mode():
                node.pops.modes.put(load.name, topic, Mode(POP))


def choose(nodes: Sequence[Node], workload: Workload, mode: str) -> None:
    """What an administrator says, of each topic at each broker."""
    for node in nodes:
        for load, topic in _switched(workload):
            # The number, which pulling has no use for, tells a choice from none.
            node.pops.modes.put(load.name, topic, Mode(mode, 1 if mode == PULL else 0))


def _switched(workload: Workload) -> list[tuple[GroupLoad, str]]:
    return [(load, topic) for load in workload.groups if load.pops == "broker" for topic in load.topics(workload)]


def _with(workload: Workload, load: GroupLoad) -> Workload:
    others = tuple(each for each in workload.groups if each.name != load.name)
    return replace(workload, groups=(*others, load))


def _load(chance: Stream, *, is_switched: bool = False) -> GroupLoad:
    return GroupLoad(
        GROUP, concurrency=chance.pick((1, 2, 4)), pauses_s=PAUSES_S, fail_rate=chance.pick((0.0, 0.05, 0.2)),
        poison_rate=chance.pick((0.0, 0.03)), stuck_rate=chance.pick((0.0, 0.02)), stuck_s=STUCK_S, progress="",
        allocation="", pops="broker" if is_switched else "pop",
    )  # fmt: skip
