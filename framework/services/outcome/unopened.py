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
from framework.ports import Clock, Workers
from framework.services.call.run_once import failure_awaited, run_once
from framework.services.crew.run import RUNNING
from framework.services.queue.pull import PullLoop

log = structlog.get_logger()

CAUSES = HOLDS
# Long enough not to burn a core on a missing package, short enough that mending it is noticed.
FIRST_MS, MAX_MS = 1_000, 30_000


@dataclass(slots=True)
class _HeldQueue:
    pull: PullLoop
    is_async: bool
    messages: list[tuple[Chunk, int]] = field(default_factory=list)


class Unopened:
    """The held messages of one group: one task a queue that has any, none otherwise."""

    def __init__(self, group: str, tree: TaskTree, clock: Clock, workers: Workers) -> None:
        self._group, self._tree, self._clock, self._workers = group, tree, clock, workers
        self._queues: dict[PullLoop, _HeldQueue] = {}

    def put(self, pull: PullLoop, chunk: Chunk, index: int, cause: BaseException, *, is_async: bool) -> None:
        """Stop the queue at this message and try it again later."""
        held = self._queues.get(pull)
        if held is None:
            held = self._queues[pull] = _HeldQueue(pull, is_async)
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
            try:
                await asyncio.sleep(backoff.failed(0.5) / 1000)
            except asyncio.CancelledError as error:
                failure_awaited(error)  # a late one of a handler's own: the queue would be held for ever
            waiting, held.messages = held.messages, []
            for chunk, index in waiting:
                if chunk.window.is_draining:
                    continue  # the next owner will have to hold it
                started = self._clock.monotonic()
                message = chunk.messages[index]
                result = await run_once(pull.call, message, is_async=held.is_async, workers=self._workers)
                if isinstance(result, CAUSES):
                    held.messages.append((chunk, index))
                elif result is None:
                    chunk.finish(index)
                    pull.left(chunk, 1)
                else:
                    pull.not_success(chunk, index, result, started)
        del self._queues[pull]
        pull.flow.hold_reason = None
        pull.bell.ring()
        log.info("queue released", group=self._group, queue=str(pull.queue))

    def __len__(self) -> int:
        return sum(len(held.messages) for held in self._queues.values())
