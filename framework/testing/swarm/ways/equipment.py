"""Equipment: the plugins that a run's ways need, in the one host of its applications."""

from __future__ import annotations

from collections.abc import Callable

from framework.testing.sim.disk import SimDisk
from framework.testing.sim.streams import Stream
from framework.testing.swarm.recorder import Recorder
from framework.testing.swarm.ways.listening import Listener
from framework.testing.swarm.ways.once import SimulatedStores
from framework.testing.swarm.ways.witness import Witness
from framework.testing.swarm.workload import Workload


def plugins(
    workload: Workload,
    recorder: Recorder,
    chance: Callable[[str], Stream],
    disk_of: Callable[[str], SimDisk],
    is_healed: Callable[[], bool],
) -> dict[str, object]:
    """By name; none where no way needs one. `disk_of` is told a process."""
    found: dict[str, object] = {}
    watched = [load for load in workload.groups if load.is_witnessed]
    if watched:
        found["witness"] = Witness(recorder, watched)
    if workload.is_heard:
        found["listener"] = Listener(recorder)
    if any(load.once_s for load in workload.groups):
        found["simulated-stores"] = SimulatedStores(recorder, chance("once"), disk_of, is_healed)
    return found
