"""Leaving: how an owned queue passes to its next owner: running handlers return, its offset is confirmed, its lock is
released. The next owner begins where we confirmed.
"""

from __future__ import annotations

from typing import Protocol

import structlog

from framework import marks
from framework.core.offsets import OffsetTable
from framework.model.queue import MessageQueue
from framework.ports import Clock
from framework.services.offsets.commit import CommitLoop
from framework.services.pool.run import MessageCounts
from framework.services.queue.pull import PullLoop

log = structlog.get_logger()


class LeavesQueues(Protocol):
    """What runs a group's handlers, when one of its queues is left."""

    def busy(self, pull: PullLoop, until: float = 0.0) -> int:
        """What of the queue's has not ended: handlers that run, or are to until then, and copies that are not durable
        yet.
        """
        ...

    async def release(self, queue: MessageQueue) -> None:
        """The last step: the next owner may begin."""
        ...


class Leaving:
    """One per group."""

    def __init__(
        self,
        group: str,
        pool: LeavesQueues,
        commits: CommitLoop,
        offsets: OffsetTable,
        counts: MessageCounts,
        clock: Clock,
    ) -> None:
        self._group, self._pool, self._commits, self._offsets = group, pool, commits, offsets
        self._counts, self._clock = counts, clock
        self.is_stopping = False
        self._stop_by = float("inf")

    def stop(self, until: float) -> None:
        """The group stops: its queues have no more time than this (seconds, monotonic)."""
        self.is_stopping, self._stop_by = True, until

    async def finish(self, pull: PullLoop, deadline: float) -> None:
        """Let running handlers end, then commit with an answer."""
        busy = await self._let_end(pull, deadline)
        if busy:
            marks.sometimes("handlers still ran when the drain limit was over")
            log.warning("queue left busy", group=self._group, queue=str(pull.queue), running=busy)
            if self.is_stopping:
                self._counts.abandoned += busy
        has_kept = False
        try:
            has_kept = await self._hand_over(pull)
        except Exception:  # border: a store's, say; a queue that could not be left would keep the process from ending
            log.exception("queue handover failed", group=self._group, queue=str(pull.queue))
        if self.is_stopping:
            self._counts.unconfirmed += self._commits.lacking(pull, has_kept=has_kept)
        pull.flow.released()
        self._offsets.forget(pull.queue)

    async def _let_end(self, pull: PullLoop, deadline: float) -> int:
        """How much is still busy when the time is over."""
        clock, busy = self._clock, self._pool.busy
        if busy(pull):
            # Now: after the wait it might be behind what the next owner has committed by then.
            await self._commits.flush(pull.queue)
        while busy(pull, until := min(deadline, self._stop_by)) and clock.monotonic() < until:
            await pull.quiet.wait(until)
        return busy(pull)

    async def _hand_over(self, pull: PullLoop) -> bool:
        """Whether a record keeps what has ended above a gap."""
        pull.flow.window.stop_handing_out()  # whatever might still have been started
        self._offsets.advance(pull.queue, pull.flow.window.settle())
        await self._commits.flush(pull.queue)
        if pull.popped is not None:
            await pull.popped.release()
        await marks.stretched("a queue that is left is confirmed")
        has_kept = await pull.progress.release(pull.flow.window)
        await marks.stretched("a queue that is left is recorded")
        await self._pool.release(pull.queue)
        return has_kept
