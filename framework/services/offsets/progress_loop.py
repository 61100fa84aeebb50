"""The loop in which, each second, each owned queue with a gap writes what is done above it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from framework.core import limits
from framework.net.task_tree import TaskTree
from framework.services.queue.pull import PullLoop


async def flush_each_second(group: str, owned: Callable[[], Iterable[PullLoop]], tree: TaskTree) -> None:
    """Until cancelled; one per group with a store."""
    while True:
        await asyncio.sleep(limits.FLUSH_MS / 1000)
        flushes = [
            tree.start(_flush(pull), name=f"progress {group}")
            for pull in owned()
            if (pull.flow.window.span and not pull.flow.window.is_empty) or pull.progress.fence.is_refused
        ]
        for task in flushes:  # side by side: a broker that does not answer holds up its own queues alone
            await task


async def _flush(pull: PullLoop) -> None:
    """Of the window that is there when the task begins, not when it was started."""
    await pull.progress.flush(pull.flow.window, pull.bell)
