"""Unopened: messages that we lack the means to open. Their queue is held until the cause is fixed.

A missing codec or key, memory, or a record damaged on the way is never the message's fault: nothing is settled, nothing
goes to the dead-letter queue, the log names the fix, and the message is tried again (SECURITY F10, F11b).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

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


@dataclass(slots=True)
class _HeldQueue:
    pull: PullLoop
    messages: list[tuple[Chunk, int]] = field(default_factory=list)


class Unopened:
    """The held messages of one group: one task a queue that has any, none otherwise."""

    def __init__(self, group: str, tree: TaskTree) -> None:
        self._group, self._tree = group, tree
        self._queues: dict[PullLoop, _HeldQueue] = {}

    def put(self, pull: PullLoop, chunk: Chunk, index: int, cause: BaseException) -> None:
        """Stop the queue at this message and try it again later."""
        held = self._queues.get(pull)
        if held is None:
            held = self._queues[pull] = _HeldQueue(pull)
            reason = str(cause) or type(cause).__name__  # a MemoryError says nothing
            pull.hold(reason)
            log.error("queue held", group=self._group, queue=str(pull.queue), reason=reason,
                      offset=chunk.messages[index].queue_offset)  # fmt: skip
            self._tree.start(self._try_again(held), name=f"held {pull.queue}")
        held.messages.append((chunk, index))

    async def _try_again(self, held: _HeldQueue) -> None:
        RUNNING.set(None)  # the worker that brought us here goes on to other messages
        backoff = Backoff(FIRST_MS, MAX_MS)
        pull = held.pull
        while held.messages:
            await asyncio.sleep(backoff.failed(0.5) / 1000)
            waiting, held.messages = held.messages, []
            for chunk, index in waiting:
                await started_again(pull, chunk, index)  # comes back by `put` where the cause is still there
        del self._queues[pull]
        pull.flow.hold_reason = None
        pull.bell.ring()
        log.info("queue released", group=self._group, queue=str(pull.queue))

    def __len__(self) -> int:
        return sum(len(held.messages) for held in self._queues.values())
