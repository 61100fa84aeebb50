"""Equipment: the plugins that a run's ways need, in the one host of its applications."""

from __future__ import annotations

from collections.abc import Callable

from framework.testing.sim.disk import SimDisk
from framework.testing.sim.streams import Stream
from tests.simulation.recorder import Recorder
from tests.simulation.ways.listening import Listener
from tests.simulation.ways.once import SimulatedStores
from tests.simulation.ways.witness import Witness
from tests.simulation.workload import Workload


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
