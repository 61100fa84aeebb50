"""Again: messages that are started once more where they are, by the pool of their queue: after a failure that no broker
keeps a copy of, and while we lack the means to open them.

Each is a chunk of its own for that, and takes a place like any other: under the group's limit, its size and its pauses.
What comes of it is told of the chunk that it was pulled in.
"""

from __future__ import annotations

import asyncio

import structlog

from framework.core.backoff import Backoff
from framework.core.chunk import Chunk
from framework.core.results import HOLDS
from framework.model.message import Message, repeated
from framework.net.task_tree import TaskTree
from framework.net.wakeup import Wakeup
from framework.services.pool.run import RUNNING
from framework.services.queue.pull import PullLoop


class RetryInPlace:
    """One per broadcasting group that is not orderly: no broker keeps a copy of what fails there, so the message itself
    waits, and with it its queue's offset. What a queue may hold bounds how many do.
    """

    def __init__(self, tree: TaskTree) -> None:
        self._tree = tree
        self.pending = 0
        """Messages that wait for their next try or are at it."""

    def put(self, pull: PullLoop, chunk: Chunk, index: int, *, pause_ms: int) -> None:
        """Try the message again after the pause."""
        self.pending += 1
        self._tree.start(self._try(pull, chunk, index, pause_ms), name=f"retry {pull.queue}")

    async def _try(self, pull: PullLoop, chunk: Chunk, index: int, pause_ms: int) -> None:
        try:
            await asyncio.sleep(pause_ms / 1000)
            pulled: Message = chunk.messages[index]
            chunk.messages[index] = repeated(pulled, pulled.attempt + 1)  # type: ignore[index]  # a list, the queue's own
            await started_again(pull, chunk, index)
        finally:
            self.pending -= 1


async def started_again(pull: PullLoop, chunk: Chunk, index: int) -> None:
    """Have the message started once more; until something has come of it, or its queue is taken away."""
    window = chunk.window
    if window.is_draining:
        return  # it is the next owner's
    run = _Again(pull, chunk, index)
    alone = Chunk((chunk.messages[index],), 0, 1, 0, window)
    alone.run = run
    window.again[alone] = run.bell.ring
    try:
        pull.pool.offer(alone)
        await run.bell.wait()
    finally:
        del window.again[alone]


class _Again:
    """What such a chunk is run with: its queue, and where in it the message was pulled."""

    def __init__(self, pull: PullLoop, chunk: Chunk, index: int) -> None:
        self.call, self.group_name, self.queue, self.pulled_at = pull.call, pull.group_name, pull.queue, pull.pulled_at
        self._pull, self._chunk, self._index = pull, chunk, index
        self.bell = Wakeup()
        """Rung when it is over."""

    def left(self, alone: Chunk, ended: int) -> None:
        if ended:
            self._chunk.finish(self._index)
            self.bell.ring()
        self._chunk.spent += alone.spent
        alone.spent = 0.0
        self._pull.left(self._chunk, ended)

    def not_success(self, alone: Chunk, index: int, result: object, started: float) -> None:
        self.bell.ring()
        self._pull.not_success(self._chunk, self._index, result, started)

    def late(self, alone: Chunk, count: int) -> None:
        self._pull.late(self._chunk, count)


log = structlog.get_logger()

CAUSES = HOLDS
# Long enough not to burn a core on a missing package, short enough that mending it is noticed.
FIRST_MS, MAX_MS = 1_000, 30_000


class HeldMessages:
    """The held messages of one group: one task a queue that has any, none otherwise.

    A missing codec or key, memory, or a record damaged on the way is never the message's fault: nothing is settled,
    nothing goes to the dead-letter queue, the log names the fix, and the message is tried again. Its queue is held
    until the cause is fixed.
    """

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
