"""RetryInPlace: failed messages of a broadcasting group, retried in this process.

No broker keeps a copy of them, so the message itself waits, and with it its queue's offset: a crash delivers it again.
Each try is a task of its own; what a queue may hold bounds how many wait at once.
"""

from __future__ import annotations

import asyncio

from framework.core.chunk import Chunk
from framework.core.window import Window
from framework.model.message import Message, repeated
from framework.net.task_tree import TaskTree
from framework.ports import Clock, Workers
from framework.services.call.run_once import run_once
from framework.services.crew.run import RUNNING
from framework.services.queue.pull import PullLoop

PAUSED_LOOK_SECONDS = 0.2  # how soon a try that is due goes on once its group does


class RetryInPlace:
    """One per broadcasting group that is not orderly. At most `size` of its tries run at once."""

    def __init__(self, size: int, tree: TaskTree, clock: Clock, workers: Workers) -> None:
        self._tree, self._clock, self._workers = tree, clock, workers
        self._places = asyncio.Semaphore(size)
        self._running: dict[Window, int] = {}
        self.pending = 0
        """Messages that wait for their next try or are at it."""

    def pending_for(self, window: Window) -> int:
        """Tries of one queue that run now. Those that only wait are not waited for: they are delivered again."""
        return self._running.get(window, 0)

    def put(self, pull: PullLoop, chunk: Chunk, index: int, *, pause_ms: int, is_async: bool) -> None:
        """Try the message again after the pause."""
        self.pending += 1
        self._tree.start(self._try(pull, chunk, index, pause_ms, is_async=is_async), name=f"retry {pull.queue}")

    async def _try(self, pull: PullLoop, chunk: Chunk, index: int, pause_ms: int, *, is_async: bool) -> None:
        RUNNING.set(None)  # the worker that brought us here goes on to other messages
        window = chunk.window
        try:
            await asyncio.sleep(pause_ms / 1000)
            async with self._places:
                while pull.flow.is_paused and not window.is_draining:  # noqa: ASYNC110 - seldom, and nobody is told
                    await asyncio.sleep(PAUSED_LOOK_SECONDS)
                if window.is_draining or window.is_closed:
                    return
                self._running[window] = self._running.get(window, 0) + 1
                try:
                    pulled: Message = chunk.messages[index]
                    message = repeated(pulled, pulled.attempt + 1)
                    chunk.messages[index] = message  # type: ignore[index]  # a list, which this queue alone holds
                    started = self._clock.monotonic()
                    result = await run_once(pull.call, message, is_async=is_async, workers=self._workers)
                finally:
                    remaining = self._running.pop(window) - 1
                    if remaining:
                        self._running[window] = remaining
                    pull.quiet.ring()  # whoever leaves the queue waits for this, also where it is tried once more
        finally:
            self.pending -= 1
        if result is not None:
            pull.not_success(chunk, index, result, started)
        elif chunk.window.is_closed or chunk.finish(index):
            pull.left(chunk, 1)

    def __repr__(self) -> str:
        return f"<RetryInPlace {self.pending} pending>"
