"""SimWorld: the World of one simulated process. Everything that `real_world.py` reads from the system is drawn here.

The wall clock of a process may be off, and may step; the monotonic one is the loop's, for all. Workers run their jobs
inline, at a later step that is drawn: where a job runs among other steps varies, but two jobs never run at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from framework.hooks.failures import plugin_failure
from framework.net.wakeup import bring_home
from framework.ports import World
from framework.testing.sim.disk import SimDisk
from framework.testing.sim.network import SimNetwork
from framework.testing.sim.node import Node
from framework.testing.sim.virtual_loop import VirtualLoop

T = TypeVar("T")
WALL_CLOCK_START_MS = 1_700_000_000_000
"""The wall clock at virtual second 0: a moment in November 2023."""


class SimClock:
    """ports.Clock."""

    def __init__(self, loop: VirtualLoop, node: Node) -> None:
        self.monotonic = loop.time
        self._loop = loop
        self._node = node

    def now_ms(self) -> int:
        return WALL_CLOCK_START_MS + int(self._loop.now * 1000) + self._node.skew_ms

    def monotonic_ms(self) -> int:
        return int(self._loop.now * 1000)


class SimWorkers:
    """ports.Workers: no threads, see the module. How late a job may start stands in the node."""

    def __init__(self, loop: VirtualLoop, node: Node) -> None:
        self._loop = loop
        self._node = node

    def submit(self, job: Callable[[], T], done: Callable[[T | None, BaseException | None], None]) -> None:
        delay = self._loop.streams.schedule.between(0.0, self._node.job_delay_max)
        # Each job a thread of its own: a partial is nobody's method, so the loop may draw among them.
        self._loop.call_later(delay, partial(self._run, job, done))

    def _run(self, job: Callable[[], T], done: Callable[[T | None, BaseException | None], None]) -> None:
        result: T | None = None
        error: BaseException | None = None
        try:
            result = job()
        except BaseException as caught:  # noqa: BLE001  # border: the job's; its owner is told
            plugin_failure(caught)  # whoever runs the simulation may press Ctrl-C
            error = caught
        self._loop.call_soon(done, result, error)

    def run(self, job: Callable[[], T]) -> Awaitable[T]:
        future: asyncio.Future[T] = self._loop.create_future()
        self.submit(job, partial(bring_home, future))
        return future

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._loop.call_soon(callback)


def sim_world(network: SimNetwork, node: Node, disk: SimDisk) -> World:
    """The World of one life of a process; its own stream of chance, so that processes do not disturb each other."""
    loop = network.loop
    return World(
        clock=SimClock(loop, node),
        network=network.door(node),
        workers=SimWorkers(loop, node),
        chance=loop.streams.named(f"process/{node.name}/{node.process}"),
        identity=node,
        files=disk,
    )
