"""Progress: keeps what is done above a gap in a store, so that the queue's next owner does not deliver it again.

A record is written each second while a gap exists, after the broker has confirmed the offset at its low end. An
acquisition reads the last record, compares messages, and writes a first record of its own. That gives it an epoch; what
the previous owner still writes is then not used. It knows no store: stores come by a hook.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial

import structlog

from framework import marks
from framework.client.fences import Fence
from framework.core import limits
from framework.core.ranges import Finished, Passing, ProgressRecord, finished_above, joined, within_limit
from framework.core.window import Window
from framework.errors import BrokerUnreachable, FrameworkError, Refused, StoreError, Superseded, Unproven, is_said
from framework.model.pulled import Found
from framework.model.queue import MessageQueue
from framework.net.wakeup import Wakeup
from framework.services.offsets.handover import GroupProgress, Handover
from framework.services.queue.intake import Further

log = structlog.get_logger()


class QueueProgress:
    """One owned queue's: from its position to its release. Its pull loop asks it, and the group's loop flushes it."""

    is_waiting = False

    def __init__(self, shared: GroupProgress, queue: MessageQueue, fence: Fence | None = None) -> None:
        self.group, self.queue, self._shared = shared.group, queue, shared
        self._store, self._use, self._offsets, self._clock = shared.store, shared.use, shared.offsets, shared.clock
        self._where = {"group": self.group, "queue": str(queue)}
        """For the log."""
        self.fence = fence or Fence()
        """Which commits have to pass, where the store raises one."""
        self._handover = Handover(shared, queue)
        self.epoch = -1
        """Of this acquisition; -1 until its first record is kept."""
        self.passing: Passing | None = None
        """What is passed over; None in all but the first moments after a take-over."""
        self._inherited: Finished | None = None
        self._window: Window | None = None
        """Whose offsets the record speaks of. Where the flow has another one, somebody has moved the queue."""
        self._may_stand = True
        """A record with ranges may be in the store, as far as this acquisition knows."""
        self._kept: Finished | None = None
        """What was written last, and when."""
        self._kept_ms = 0
        self._ended = (-1, -1)
        """The last offset that had ended above a gap two flushes ago, and one ago; -1 where there was none."""
        self._was_looked_for = False
        """The group was asked whether it uses its store."""
        self._taken_ms = 0
        self._is_taking = False
        """A take was begun and its answer has not come: it may have been cancelled on the way, and still count."""
        self._unread = 0
        """How often in a row the last record, or a message that it speaks of, could not be read."""
        self._is_said = False
        """That records are not known to be the group's was logged for another queue."""
        self._is_failing = False
        self._is_writing = asyncio.Lock()

    # Acquisition

    async def handed_over(self) -> None:
        """Return when the previous owner has said that it is done, need not, or was waited for long enough."""
        if self._shared.has_ranges and await self._is_used():
            await self._handover.awaited()

    async def _is_used(self) -> bool:
        """Whether the store may know of the queue, or is to hear of it."""
        if not self._was_looked_for:
            await self._use.looked(self.queue)
            self._was_looked_for = True
        return self._use.is_open

    async def release(self, window: Window) -> bool:
        """Say that this owner is done with the queue, and keep what had ended above a gap; after the last commit.

        Whether all of that is kept.
        """
        if not self._shared.has_ranges:
            return False
        found = self._inherited if window.is_closed else None
        if window is self._window:
            low = window.settle()
            window.fold()
            found = finished_above(window, self._inherited)
            if found is None and self._inherited is not None and self._inherited.last.offset >= low:
                found = self._inherited  # not all of it has been passed over
            self._offsets.advance(self.queue, low)
        try:
            if self.epoch < 0 and found is None:
                if (last := await self._cut_off()) is None:
                    return False  # nothing was announced, and there is nothing to keep
                found = last.finished
            if self.fence.is_refused and not window.is_closed:
                await self._taken_anew(window)
            await self._confirm()
            async with self._is_writing:
                if self.epoch < 0:
                    self._use.begin(f"{self.queue}: a queue with a gap is left")
                    record = await self._take(found, is_released=True)
                else:
                    record = await self._written(found, is_released=True)
        except Superseded:
            return False  # whoever has the queue already needs no word of ours
        except FrameworkError as error:
            self._failed(error)
            return False
        log.debug("release recorded", **self._where, epoch=self.epoch)
        return record.finished is not None

    def _record(self, found: Finished | None, *, is_released: bool = False) -> ProgressRecord:
        return ProgressRecord(self.queue, self.epoch, found, self._shared.member, is_released)

    async def begin(self, offset: int, stored: int | None) -> bool:
        """Read what was kept, compare, and write a first record; raises what a queue cannot be begun without.

        False where somebody else has begun with it since it was handed over: two whose lists differ may have waited
        for the same word. Wait again, and then ask anew where to begin. The same where the former owner's word came
        behind the wait for it: `offset` may be older than its last commit.
        """
        self.passing = self._inherited = self._window = None
        self._may_stand = True
        self.epoch = -1  # until there is one again: what failed to be taken must not lend its successor the old one
        if not self._shared.has_ranges:
            await self._take_first(None)
            self._may_stand = False
            return True
        if not await self._is_used():
            self._may_stand = self._use.is_in_doubt
            return True
        log.debug("progress requested", **self._where)
        found = None
        last, reason = await self._read()
        if self._handover.is_taken_by_another(last) or self._handover.has_spoken_late(last):
            return False
        if last is not None:
            try:
                found, reason = await self._shared.compared(self.queue, last.finished, offset, stored)
            except FrameworkError as error:
                reason = self._doubted(error)
        self._unread = 0
        if reason is not None:
            (log.debug if self._is_said else log.warning)("progress discarded", **self._where, reason=reason)
        try:
            await self._take_first(found)
        except FrameworkError as error:
            if reason is not None:
                raise  # the record would be taken for true once the offset has passed its low end again
            self._failed(error)
        self._may_stand = found is not None
        if found is not None:
            ranges = joined(found.ranges, offset, found.last.offset + 1)
            self.passing, self._inherited = Passing(ranges), found
            log.info("progress taken over", **self._where, offset=offset, low=found.low.offset, ranges=found.ranges)
        return True

    def begun(self, window: Window) -> None:
        """The queue goes on with this window. In the turn in which it began: a reset may come before the first pull."""
        if window is not self._window:
            self._ended, self._kept = (-1, -1), None  # also what a flush has kept while this one was on its way
        self._window = window
        window.epoch = self.epoch if self.epoch >= 0 and self._shared.tells_epoch() else None

    async def _read(self) -> tuple[ProgressRecord | None, str | None]:
        """What was kept, or why it is discarded."""
        self._is_said = False
        try:
            return await self._shared.last(self.queue), None
        except Unproven as error:
            self._is_said, self._shared.is_told_unproven = self._shared.is_told_unproven, True
            return None, str(error)
        except FrameworkError as error:
            return None, self._doubted(error)

    def _doubted(self, error: FrameworkError) -> str:
        """Why a record is discarded that cannot be read; raises while its broker is away, or it is to be tried again.

        A queue must not wait for ever for what is damaged. Where the store can be written, that is what it is.
        """
        if isinstance(error, StoreError):
            return str(error)
        if isinstance(error, BrokerUnreachable):
            raise error
        self._unread += 1
        if self._unread < limits.UNREAD_TRIES:
            raise error
        return f"{error}, in {self._unread} tries"

    async def _take_first(self, found: Finished | None) -> None:
        try:
            await self._take(found)
        except (Refused, StoreError) as error:
            raise FrameworkError(f"its first record of progress could not be written: {error}") from error

    async def _take(self, found: Finished | None, *, is_released: bool = False) -> ProgressRecord:
        record, content = within_limit(replace(self._record(found, is_released=is_released), epoch=-1))
        self._is_taking = True
        self.epoch = await self._store.take(self.queue, content)
        self._is_taking = False
        self._taken_ms = self._clock.monotonic_ms()
        self._use.has_begun()
        return record

    async def _cut_off(self) -> ProgressRecord | None:
        """The record of a take that was cancelled on its way and has reached the store all the same. Its epoch fences
        the queue's owner, who takes the queue again at once where the record says released, else only after a while.
        """
        if not self._is_taking:
            return None
        last = await self._shared.last(self.queue)
        return last if last is not None and last.owner == self._shared.member and not last.is_released else None

    # Moved by somebody: an administrator's reset, an offset that the broker named

    def is_moved(self, window: Window) -> bool:
        """Asked before each pull: whether what was kept speaks of other offsets than this window's."""
        return self._window is not window

    async def start_over(self, window: Window) -> bool:
        """Void what may stand in the store, before anything is pulled; False where that failed."""
        self.passing = self._inherited = None
        window.is_kept = False
        if self._may_stand:
            try:
                async with self._is_writing:
                    if await self._use.asked(self.queue):
                        await self._take(None)
            except FrameworkError as error:
                self._failed(error)
                return False
        self._may_stand = False
        self.begun(window)
        return True

    # As a part of the intake

    async def take(self, found: Found, begin: int, further: Further) -> bool:
        """A pull's answer goes on without what had ended already."""
        return await further(found if self.passing is None else self._cut(found, self.passing), begin)

    def _cut(self, found: Found, passing: Passing) -> Found:
        rest = passing.cut(found)
        if rest is not found:
            gone = {message.queue_offset for message in found.messages} - {each.queue_offset for each in rest.messages}
            log.debug("messages already done", **self._where, offsets=sorted(gone))
        if found.next_offset >= passing.end:
            self.passing = None
        return rest

    # Flushing

    async def flush(self, window: Window, bell: Wakeup) -> None:
        """Keep what has ended above the gap, if there is one that is worth it and something new to keep."""
        if window is not self._window or window.is_closed or not self._shared.has_ranges:
            return
        if self.fence.is_refused and not await self._taken_anew(window):
            return
        low = window.settle()
        window.fold()
        found, now_ms = finished_above(window, self._inherited), self._clock.monotonic_ms()
        if not self._lasts(low, found) or found is None:
            return
        if found == self._kept and now_ms - self._kept_ms < limits.RECORD_REFRESH_MS:
            return
        self._use.begin(f"{self.queue}: what ended above {low} waits for it since 2 s")
        self._offsets.advance(self.queue, low)
        try:
            await self._confirm()
            await marks.stretched("ranges are to be written")
            async with self._is_writing:
                if window is not self._window or window.is_closed:
                    return  # moved or gone meanwhile: these ranges may speak of what is handled anew
                is_whole = await self._write(found)
        except FrameworkError as error:
            window.is_kept = False
            self._failed(error)
            return
        if self._is_failing:
            self._is_failing = False
            log.info("progress kept again", **self._where)
        self._kept, self._kept_ms = found, now_ms
        if is_whole and not window.is_kept:
            bell.ring()  # it may wait because of its span
        window.is_kept = is_whole
        if is_whole:
            log.debug(
                "progress kept",
                **self._where, epoch=self.epoch, low=found.low.offset, ranges=found.ranges,
                built_ms=now_ms,
            )  # fmt: skip

    def _lasts(self, low: int, found: Finished | None) -> bool:
        """Handlers that run side by side leave small gaps all the time, which close at once: worth a record is what
        had ended a flush ago and is above one still, or much; two flushes ago, where nobody has named a store.
        """
        longer_ago, before = self._ended
        self._ended = before, -1 if found is None else found.last.offset
        if self._use.is_auto:
            return low <= longer_ago
        return low <= before or (
            found is not None and sum(end - begin for begin, end in found.ranges) > limits.RANGES_SMALL
        )

    async def _confirm(self) -> None:
        """Have the broker say that it holds the offset at the low end, or one above it."""
        if self._offsets.unconfirmed(self.queue) is None:
            return
        committable = partial(self._offsets.committable, self.queue)
        sent = await self._shared.brokers.commit_confirmed(self.group, self.queue, committable)
        if sent is None:
            raise StoreError(f"progress of {self.queue}: the queue was released meanwhile")
        self._offsets.confirmed(self.queue, sent)

    async def _write(self, found: Finished) -> bool:
        self._may_stand = True
        if self.epoch < 0:
            await self._take(None)
            if self._window is not None:
                self.begun(self._window)
        return (await self._written(found)).finished is not None

    async def _written(self, found: Finished | None, *, is_released: bool = False) -> ProgressRecord:
        record, content = within_limit(self._record(found, is_released=is_released))
        try:
            await self._store.write(self.queue, self.epoch, content)
        except Superseded:
            window = self._window
            if window is None or not await self._is_still_ours(window):
                raise
            record = await self._take(found, is_released=is_released)
            if window is self._window:
                self.begun(window)
        return record

    async def _taken_anew(self, window: Window) -> bool:
        """After a commit was refused: whether the queue is ours again."""
        try:
            if not await self._is_still_ours(window):
                return False
            async with self._is_writing:
                await self._take(None)
        except FrameworkError as error:
            self._failed(error)
            return False
        if window is self._window:
            self.begun(window)
        self._kept = None
        self._offsets.mark_unsent(self.queue)
        return True

    async def _is_still_ours(self, window: Window) -> bool:
        """Whether to take the queue anew. Members whose lists differ own one together for a while; whoever keeps it
        must have the highest epoch, or nothing that it writes would ever count: at once where the other one is gone and
        knew less. Two that both stay do not outbid each other with each flush, and who is leaving lets the other be.
        """
        must_wait = window.is_draining or self._clock.monotonic_ms() - self._taken_ms < limits.TAKE_AGAIN_MS
        if must_wait and not await self._is_left_behind():
            return False
        log.info("queue re-acquired", **self._where, epoch=self.epoch)
        return True

    async def _is_left_behind(self) -> bool:
        """Whether the queue was let go by whoever took it, and that with an offset below ours."""
        last = await self._shared.last(self.queue)
        if last is None or not last.is_released:
            return False
        ours = self._offsets.committable(self.queue)
        return ours is not None and ours > (await self._shared.stored(self.group, self.queue) or 0)

    def _failed(self, error: FrameworkError) -> None:
        if not self._is_failing:
            self._is_failing = True
            told = log.debug if is_said(error) else log.warning
            told("progress not kept", **self._where, reason=str(error))
