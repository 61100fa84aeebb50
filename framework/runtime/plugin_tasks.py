"""Plugin tasks: work of plugins that goes on beside the groups, and is waited for when the application stops.

A plugin starts its own in `app_started` and tells it to end in `app_stopping`; what then still runs has as long as the
handlers have, and is cancelled behind them, while the connection to the cluster is still there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import structlog

from framework.hooks.failures import plugin_failure_awaited
from framework.net.task_tree import TaskTree

log = structlog.get_logger()

CANCELLED_SECONDS = 2.0
"""How long one that was cancelled may take to tidy up."""


class PluginTasks:
    """Those of one application."""

    def __init__(self) -> None:
        self._tree = TaskTree(on_error=_failed)
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        task = self._tree.start(_contained(work), name=name)
        self._tasks.append(task)
        return task

    def __len__(self) -> int:
        return len(self._tasks)

    async def end(self, drain_ms: int) -> None:
        """Returns when all have ended; those that have not within the limit are cancelled."""
        try:
            async with asyncio.timeout(drain_ms / 1000):
                for task in self._tasks:
                    await _ended(task)
        except TimeoutError:
            names = sorted(task.get_name() for task in self._tasks if not task.done())
            log.warning("plugin tasks cancelled", tasks=names, drain_ms=drain_ms)
        await self.close()

    async def close(self) -> None:
        """Cancel what is left."""
        if all(task.done() for task in self._tasks):
            return
        try:
            async with asyncio.timeout(CANCELLED_SECONDS):
                await self._tree.close()
        except TimeoutError:
            log.warning(
                "plugin tasks left running", tasks=sorted(each.get_name() for each in self._tasks if not each.done())
            )


async def _contained(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except BaseException as error:  # noqa: BLE001 - border: what is none of Exception's would end the loop
        raise plugin_failure_awaited(error) from error.__cause__


def _failed(name: str, error: BaseException) -> None:
    log.error("plugin task failed", task=name, exc_info=error)


async def _ended(task: asyncio.Task[None]) -> None:
    """What it raised was said already."""
    over = asyncio.Event()
    task.add_done_callback(lambda _: over.set())
    await over.wait()
