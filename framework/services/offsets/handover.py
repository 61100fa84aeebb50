"""Handover: the wait for a queue's previous owner, which says in the store of progress that it is done with the queue.

Members do not vote, so a newcomer computes its share a moment before the previous owner has stopped. The successor of a
member that leaves in order waits for its word, within a limit. Here stands, too, what a group's acquisitions share.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import structlog

from framework.client.brokers import Brokers
from framework.core import limits
from framework.core.offsets import OffsetTable
from framework.core.ranges import Finished, Mark, ProgressRecord, decode, mark_of, why_not
from framework.errors import FrameworkError
from framework.model.contracts import KeepsProgress
from framework.model.queue import MessageQueue
from framework.ports import Clock
from framework.services.offsets.progress_use import NamedStore, StoreUse

log = structlog.get_logger()


@dataclass(eq=False, slots=True)
class GroupProgress:
    """What the queues of one group that keeps its progress share."""

    group: str
    store: KeepsProgress
    use: StoreUse | NamedStore
    brokers: Brokers
    offsets: OffsetTable
    clock: Clock
    stored: Callable[[str, MessageQueue], Awaitable[int | None]]
    """The offset that a broker has stored for a group."""
    member: str = ""
    members: Callable[[], Sequence[str]] = tuple
    has_ranges: bool = True
    """Without them progress is there for the epoch alone, and no queue begins without one."""
    tells_epoch: Callable[[], bool] = lambda: True
    """Deliveries are told it where members elsewhere count on from it."""
    awaited: int = 0
    """How often a queue had to wait for its previous owner."""
    is_told_unproven: bool = False
    """It was logged that records are not known to be the group's: an older version's, say, one in each queue."""

    async def last(self, queue: MessageQueue) -> ProgressRecord | None:
        kept = await self.store.read(queue)
        return None if kept is None else decode(kept.content, queue)

    def owner_awaited(self, last: ProgressRecord | None) -> str | None:
        """Whose word to wait for before a queue is begun; None where nobody has to give it.

        A member that is not listed any more is dead, or has left, which it does after it has released everything. What
        is not ours (a Java member's queue, a record of an older version) is never announced.
        """
        if last is None or last.is_released or last.owner == self.member or last.owner not in self.members():
            return None
        return last.owner

    async def compared(
        self, queue: MessageQueue, found: Finished | None, offset: int, stored: int | None
    ) -> tuple[Finished | None, str | None]:
        """What may be passed over, or why something must not be: the messages at a record's ends are read again."""
        if found is None or (stored is not None and offset == stored > found.last.offset):
            return None, None
        begins = stored if offset == stored else None
        at_low = at_last = None
        if begins is not None and begins >= found.low.offset:
            at_low = await self._mark_at(queue, found.low.offset)
            at_last = await self._mark_at(queue, found.last.offset)
        reason = why_not(found, begins, at_low, at_last)
        return (found, None) if reason is None else (None, reason)

    async def _mark_at(self, queue: MessageQueue, offset: int) -> Mark | None:
        for message in await self.brokers.peek(self.group, queue, offset, 1):
            return mark_of(message) if message.queue_offset == offset else None
        return None


class Handover:
    """Of one queue."""

    def __init__(self, shared: GroupProgress, queue: MessageQueue) -> None:
        self._shared, self._queue = shared, queue
        self._is_over = False
        """The previous owner has let the queue go, or was waited for long enough."""
        self._since_ms: int | None = None
        """Since when its word is waited for."""
        self._seen: ProgressRecord | None = None
        """What the store had of the queue when it was last asked whose word to wait for."""

    async def awaited(self) -> None:
        """Return when the previous owner has said that it is done, need not, or was waited for long enough."""
        shared = self._shared
        if self._since_ms is None:
            self._since_ms = shared.clock.monotonic_ms()
        while not self._is_over and any(member != shared.member for member in shared.members()):
            owner = await self._still_owned_by()
            waited_ms = shared.clock.monotonic_ms() - self._since_ms
            if owner is None or waited_ms >= limits.HANDOVER_MS:
                if waited_ms >= limits.HANDOVER_LOOK_MS:
                    shared.awaited += 1
                    log.info(
                        "handover awaited" if owner is None else "handover not announced",
                        group=shared.group, queue=str(self._queue), former=owner, waited_ms=waited_ms,
                    )  # fmt: skip
                break
            await asyncio.sleep(limits.HANDOVER_LOOK_MS / 1000)
        self._is_over = True

    async def _still_owned_by(self) -> str | None:
        try:
            self._seen = await self._shared.last(self._queue)
        except FrameworkError:
            return None  # reading it once more will say what is wrong
        return self._shared.owner_awaited(self._seen)

    def is_taken_by_another(self, last: ProgressRecord | None) -> bool:
        """Whether another member has begun with the queue since it was handed over, so that its word is awaited too."""
        if self._since_ms is None or self._shared.clock.monotonic_ms() - self._since_ms >= limits.HANDOVER_MS:
            return False
        self._is_over = self._shared.owner_awaited(last) is None
        return not self._is_over

    def has_spoken_late(self, last: ProgressRecord | None) -> bool:
        """Whether another member has let the queue go since it was asked whose word to wait for: it has committed once
        more, and its ranges went with that, so where to begin is asked anew. Said once for each such word.

        Its word may not have come in time, or was not waited for: it had begun to keep progress only then.
        """
        shared = self._shared
        if last is None or not last.is_released or last.owner == shared.member or last == self._seen:
            return False
        self._seen = last
        return any(member != shared.member for member in shared.members())
