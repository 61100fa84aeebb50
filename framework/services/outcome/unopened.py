"""Unopened: messages that we lack the means to open. Their queue is held until the cause is fixed.

A missing codec or key, memory, or a record damaged on the way is never the message's fault: nothing is settled, nothing
goes to the dead-letter queue, the log names the fix, and the message is tried again.
"""

from __future__ import annotations

import asyncio

import structlog

from framework.core.backoff import Backoff
from framework.core.chunk import Chunk
from framework.core.results import HOLDS
from framework.net.task_tree import TaskTree
from framework.services.crew.run import RUNNING
from framework.services.outcome.again import started_again
from framework.services.queue.pull import PullLoop

log = structlog.get_logger()

CAUSES = HOLDS
# Long enough not to burn a core on a missing package, short enough that mending it is noticed.
FIRST_MS, MAX_MS = 1_000, 30_000


class Unopened:
    """The held messages of one group: one task a queue that has any, none otherwise."""

    def __init__(self, group: str, tree: TaskTree) -> None:
        self._group, self._tree = group, tree
        self._queues: dict[PullLoop, list[tuple[Chunk, int]]] = {}

    def put(self, pull: PullLoop, chunk: Chunk, index: int, cause: BaseException) -> None:
        """Stop the queue at this message and try it again later."""
        waiting = self._queues.get(pull)
        if waiting is None:
            waiting = self._queues[pull] = []
            reason = str(cause) or type(cause).__name__  # a MemoryError says nothing
            pull.hold(reason)
            log.error("queue held", group=self._group, queue=str(pull.queue), reason=reason,
                      offset=chunk.messages[index].queue_offset)  # fmt: skip
            self._tree.start(self._try_again(pull), name=f"held {pull.queue}")
        waiting.append((chunk, index))

    async def _try_again(self, pull: PullLoop) -> None:
        RUNNING.set(None)  # the worker that brought us here goes on to other messages
        backoff = Backoff(FIRST_MS, MAX_MS)
        while self._queues[pull]:
            await asyncio.sleep(backoff.failed(0.5) / 1000)
            waiting, self._queues[pull] = self._queues[pull], []
            for chunk, index in waiting:
                await started_again(pull, chunk, index)  # comes back by `put` where the cause is still there
        del self._queues[pull]
        pull.flow.hold_reason = None
        pull.bell.ring()
        log.info("queue released", group=self._group, queue=str(pull.queue))

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))
