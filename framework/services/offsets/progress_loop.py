"""ProgressLoop: each second, each owned queue with a gap writes what is done above it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from framework.core import limits
from framework.net.task_tree import TaskTree
from framework.services.queue.pull import PullLoop


class ProgressLoop:
    """One per group with a store."""

    def __init__(self, group: str, owned: Callable[[], Iterable[PullLoop]], tree: TaskTree) -> None:
        self._group, self._owned, self._tree = group, owned, tree

    async def run(self) -> None:
        while True:
            await asyncio.sleep(limits.FLUSH_MS / 1000)
            flushes = [
                self._tree.start(flush(pull), name=f"progress {self._group}")
                for pull in self._owned()
                if (pull.flow.window.span and not pull.flow.window.is_empty) or pull.progress.fence.is_refused
            ]
            for task in flushes:  # side by side: a broker that does not answer holds up its own queues alone
                await task


async def flush(pull: PullLoop) -> None:
    """Of the window that is there when the task begins, not when it was started."""
    await pull.progress.flush(pull.flow.window, pull.bell)
