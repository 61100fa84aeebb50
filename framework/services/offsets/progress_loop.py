"""ProgressLoop: has each owned queue with a gap flush what has ended above it, each second."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Protocol

from framework.core import limits
from framework.core.window import Window
from framework.net.task_tree import TaskTree
from framework.net.wakeup import Wakeup
from framework.services.offsets.progress import QueueProgress


class Owned(Protocol):
    """What flushing needs of an owned queue."""

    progress: QueueProgress | None

    @property
    def position(self) -> Window | None: ...

    bell: Wakeup


class ProgressLoop:
    """One a group with a store."""

    def __init__(self, group: str, owned: Callable[[], Iterable[Owned]], tree: TaskTree) -> None:
        self._group, self._owned, self._tree = group, owned, tree

    async def run(self) -> None:
        while True:
            await asyncio.sleep(limits.FLUSH_MS / 1000)
            flushes = [
                self._tree.start(flush(pull), name=f"progress {self._group}")
                for pull in self._owned()
                if (window := pull.position) is not None
                and (
                    (window.span and not window.is_empty)
                    or (pull.progress is not None and pull.progress.fence.is_refused)
                )
            ]
            for task in flushes:  # side by side: a broker that does not answer holds up its own queues alone
                await task


async def flush(pull: Owned) -> None:
    progress, window = pull.progress, pull.position
    if progress is not None and window is not None:
        await progress.flush(window, pull.bell)
