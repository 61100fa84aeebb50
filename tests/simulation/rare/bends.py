"""Bends: makes a run's rare things happen: draws them, lays small limits over its settings, and answers its marks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from framework.broker.settings import BrokerSettings
from framework.settings.schema import AppSettings
from framework.testing.sim.streams import Stream
from tests.simulation.rare.rare_marks import Active, draw_marks
from tests.simulation.rare.small_limits import WINDOWS, draw_limits
from tests.simulation.workload import Workload

SLOW_DISK_S = 0.1
"""A box that writes by twos on such a disk is behind by seconds, and its due messages are."""
MANY, LONG_LINGER = 300, "1s"


def made_rare(workload: Workload, chance: Callable[[str], Stream], *, is_calm: bool) -> Workload:
    """The workload with some limits small and some rare marks awake; last, so that no draw of others changes."""
    spares = set(WINDOWS) if any(load.by_hand for load in workload.groups) else set[str]()
    if workload.messages >= MANY and any(load.batch and load.linger == LONG_LINGER for load in workload.groups):
        spares |= set(WINDOWS)  # no batch would ever be full, and each wait for its time
    if is_calm and len(workload.groups) > 1:
        spares.add("budget")  # one group's lines that wait hold all of it, and the other ones' queues pause
    if workload.sync_s > SLOW_DISK_S:
        spares.add("writes of a group")
    if any(load.tags for load in workload.groups):
        spares.add("standstill")  # what a filter leaves out wakes no pull, and one may wait for twice as long
    small = draw_limits(chance, is_calm=is_calm, spares=spares)
    loads = tuple(replace(load, **small.of("load")) for load in workload.groups)  # type: ignore[arg-type]  # its fields
    run = small.of("run")
    return replace(workload, groups=loads, small=small, rare=draw_marks(chance, is_calm=is_calm), **run)  # type: ignore[arg-type]  # likewise


def small_settings(settings: AppSettings, workload: Workload) -> AppSettings:
    """The settings with the run's limits, which may be smaller than users may have them."""
    small = workload.small
    group, app, cluster = small.of("group"), small.of("app"), small.of("cluster")
    consumers = {name: consumer.model_copy(update=group) for name, consumer in settings.consumers.items()}
    return settings.model_copy(
        update={
            "app": settings.app.model_copy(update=app),
            "cluster": settings.cluster.model_copy(update=cluster),
            "consumers": consumers,
        }
    )


def small_broker(settings: BrokerSettings, workload: Workload) -> BrokerSettings:
    return replace(settings, **workload.small.of("broker"))  # type: ignore[arg-type]  # fields of it


class RunBends:
    """What the marks of one run answer; see `framework.marks`. They are asleep once everything is healed."""

    def __init__(
        self,
        workload: Workload,
        chance: Callable[[str], Stream],
        is_healed: Callable[[], bool],
        done: Callable[[str, str], None],
    ) -> None:
        """`done(name, what)` is told each time."""
        self._awake = {each.name: (each, chance(f"rare/{each.name}")) for each in workload.rare.active}
        self._is_healed, self._done = is_healed, done

    def rarely(self, name: str) -> bool:
        found = self._drawn(name)
        if found is None:
            return False
        self._done(name, "done")
        return True

    def stretch(self, name: str) -> Awaitable[None] | None:
        found = self._drawn(name)
        if found is None:
            return None
        mark, chance = found
        seconds = chance.between(0.0, mark.seconds)
        self._done(name, f"for {seconds:.3f}s")
        return asyncio.sleep(seconds)

    def _drawn(self, name: str) -> tuple[Active, Stream] | None:
        found = self._awake.get(name)
        if found is None or self._is_healed() or not found[1].happens(found[0].chance):
            return None
        return found
