"""An application within another program: when it is ready, and for how long it runs beside one that serves requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from framework.client.cluster import Cluster
from framework.client.producer import Producer
from framework.errors import BrokerUnreachable
from framework.mistakes import WrongMoment
from framework.net.task_tree import TaskTree
from framework.runtime.life import Life

if TYPE_CHECKING:
    from framework.runtime.app import App

PATIENCE = "60s"
"""A start itself waits for brokers for ever, unless settings limit it; whoever serves requests wants to know."""
NOBODY_RUNS_SECONDS = 10.0
"""How long one that nobody runs is waited for: a task that was just made begins in the next turn of the loop."""
LOOK_SECONDS = 0.05


async def started(life: Life, reasons: Callable[[], Iterator[str]], within_s: float | None) -> None:
    """Return when there is no reason against it being ready; raise what stands in the way."""
    now = asyncio.get_running_loop().time
    began = now()
    while True:
        life.check_process()
        waited = now() - began
        if life.phase in {"stopping", "stopped"} or (life.phase == "new" and waited > NOBODY_RUNS_SECONDS):
            raise WrongMoment(life.state) from life.failure
        if life.phase == "running" and next(reasons(), None) is None:
            return
        if within_s is not None and waited > within_s:
            raise BrokerUnreachable(f"{life.state}, and not ready after {within_s:g} s: {'; '.join(reasons())}")
        await asyncio.sleep(LOOK_SECONDS)


def producer_over(cluster: Cluster | None, life: Life) -> Producer:
    """Of an application that has begun."""
    if cluster is None:
        raise WrongMoment(f"App.publisher: {life.state}")
    return Producer(cluster=cluster)


@asynccontextmanager
async def beside(app: App) -> AsyncIterator[None]:
    """Ready when the block begins, drained behind its end; raises what the application failed with."""
    tree = TaskTree(on_error=lambda *_: None)  # it is raised here
    running = tree.start(app.run(), name="application")
    try:
        await app.started()
        try:
            yield
        finally:
            await app.stop()
        await running
    finally:
        await tree.close()
