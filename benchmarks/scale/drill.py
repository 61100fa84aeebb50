"""Drill: what happens to the group, phase by phase, and the figures of each.

Phases follow each other in one run. Time to rest counts from the end of what disturbs the group: for a storm from its
last kill's return, for a start or a leave from its beginning.
"""

from __future__ import annotations

import asyncio
import resource
import sys
import time
from collections.abc import Callable, Collection, Coroutine
from dataclasses import dataclass, field
from typing import Any

from benchmarks.scale.world import BROKERS, GroupWorld
from framework.wire.codes import request_name

START_S, CALM_S, LEAVE_S = 40.0, 30.0, 15.0
BATCHES = 10
"""Of a rolling restart, and of a storm: a tenth of the members each time."""
BATCH_S = 6.0
LOSS_S, RETURN_S = 45.0, 40.0
STORM_S, STORM_EACH_S, AWAY_S = 60.0, 5.0, 2.0
SETTLING_S = 15.0
LOST_BROKER = BROKERS[1]
"""Not the first: its port is the name server's as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Of one phase."""

    phase: str
    members: int
    virtual_s: float
    rest_s: float | None
    """From the end of the disturbance until the last queue rested; None: not all did."""
    moves: int
    requests: int
    mean: float
    """Requests of one broker and second."""
    peak: int
    by_code: dict[str, int] = field(default_factory=dict)
    notices: int = 0
    routes: int = 0
    """Questions for routes, which a name server answers."""
    member_peak: int = 0
    """The most requests of one member to one broker within one second, everything counted."""
    group_peak: int = 0
    """The same of what a member asks because of the other members."""
    cpu_s: float = 0.0
    steps: int = 0

    @property
    def cpu_a_minute(self) -> float:
        """Seconds of processor time a virtual minute."""
        return self.cpu_s * 60 / self.virtual_s


Tell = Callable[[Figures], None]
Act = Callable[[], Coroutine[Any, Any, float | None]]
START, CALM, LEAVE, ROLLING, LOST, BACK, STORM = PHASES = (
    "start of all", "calm", "one leaves", "rolling restart", "broker lost", "broker back", "storm",
)  # fmt: skip


class Drill:
    """One world, played once."""

    def __init__(self, world: GroupWorld, tell: Tell = lambda _: None) -> None:
        self._world = world
        self._tell = tell
        self.figures: dict[str, Figures] = {}
        self._come_back: Callable[[], None] = lambda: None

    def run(self, phases: Collection[str] = ()) -> dict[str, Figures]:
        """All phases, or these and the start."""
        self._world.cluster.run(lambda _: self._play(phases))
        return self.figures

    async def _play(self, phases: Collection[str]) -> None:
        await self._world.start_brokers()
        plan: tuple[tuple[str, Act, float], ...] = (
            (CALM, _nothing, CALM_S),
            (LEAVE, self._leave, LEAVE_S),
            (ROLLING, self._rolling, SETTLING_S),
            (LOST, self._lose, LOSS_S),
            (BACK, self._return, RETURN_S),
            (STORM, self._storm, SETTLING_S),
        )
        await self._phase(START, self._start, START_S)
        for name, act, settling_s in plan:
            if not phases or name in phases:
                await self._phase(name, act, settling_s)

    async def _phase(self, name: str, act: Act, settling_s: float) -> None:
        """`act` disturbs the group; it answers when it was over, where that was not at its return."""
        world, loop = self._world, self._world.loop
        world.tap.begin()
        world.ownership.begin()
        began, cpu, steps = loop.now, time.process_time(), loop.steps
        over = await act() or loop.now
        await world.cluster.wait_until(max(over, began) + settling_s)
        changed = world.ownership.changed_at
        requests, virtual_s = world.tap.requests(), loop.now - began
        self.figures[name] = found = Figures(
            phase=name,
            members=len(world.cluster.apps),
            virtual_s=virtual_s,
            rest_s=max(changed - over, 0.0) if world.ownership.is_at_rest else None,
            moves=world.ownership.moves,
            requests=requests.total(),
            mean=requests.total() / len(BROKERS) / virtual_s,
            peak=max(world.tap.of_brokers(), default=0),
            by_code={request_name(code): count for code, count in sorted(requests.items())},
            notices=world.tap.sent[40],
            routes=world.tap.route_questions,
            member_peak=world.tap.peak_all.highest,
            group_peak=world.tap.peak_group.highest,
            cpu_s=time.process_time() - cpu,
            steps=loop.steps - steps,
        )
        self._tell(found)

    async def _start(self) -> float:
        began = self._world.loop.now
        self._world.start_all()
        return began

    async def _leave(self) -> float:
        began, steady = self._world.loop.now, self._world.steady
        await self._world.leave(steady[len(steady) // 2])
        return began

    async def _rolling(self) -> None:
        world, steady = self._world, self._world.steady
        next_at = world.loop.now
        for batch in range(BATCHES):
            await world.cluster.wait_until(next_at)
            next_at += BATCH_S
            await self._all([world.restart(machine) for machine in steady[batch::BATCHES]])

    async def _all(self, work: list[Coroutine[Any, Any, None]]) -> None:
        tasks = [self._world.loop.create_task(each, name="scale") for each in work]
        for task in tasks:
            await task

    async def _lose(self) -> None:
        self._come_back = self._world.lose_broker(LOST_BROKER)

    async def _return(self) -> None:
        self._come_back()

    async def _storm(self) -> None:
        world = self._world
        next_at = world.loop.now
        for _ in range(int(STORM_S / STORM_EACH_S)):
            await world.cluster.wait_until(next_at)
            next_at += STORM_EACH_S
            hit = world.chance.sample(world.steady, max(len(world.steady) // BATCHES, 1))
            for machine in hit:
                world.kill(machine)
            await asyncio.sleep(AWAY_S)
            for machine in hit:
                world.cluster.start_app(machine)


async def _nothing() -> None:
    """A phase in which nothing happens."""


def memory_mib() -> int:
    """The most that this process had, in MiB."""
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used // (1024 * 1024 if sys.platform == "darwin" else 1024)
