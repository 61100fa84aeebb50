"""CommitLoop: commits a group's offsets to its brokers.

The committable offset is sent with each pull; this loop is for what ended since. It leaves no queue to its next pull,
which may be seconds away: a crash would repeat more than the last second's work. It commits one-way
while the group runs, and with an answer on handover and stop. Now and then each owner commits an unchanged offset
again: a broker believes the last commit, and a previous owner's may have come late.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial

import structlog

from framework import marks
from framework.core import limits
from framework.core.offsets import OffsetTable
from framework.core.queue_flow import QueueState
from framework.errors import BrokerUnreachable, FrameworkError, Superseded, is_said
from framework.hooks.listeners import NO_LISTENERS, Listeners
from framework.model.queue import MessageQueue
from framework.services.queue.position import KeepsOffsets
from framework.services.queue.pull import PullLoop

log = structlog.get_logger()


class CommitLoop:
    """One per group. It is the only one that sends offsets by themselves."""

    def __init__(
        self, group: str, brokers: KeepsOffsets, offsets: OffsetTable, owned: Callable[[], Iterable[PullLoop]], *,
        others_commit: bool = True, listeners: Listeners = NO_LISTENERS,
        stored: Callable[[MessageQueue], int] = lambda _: -1,
    ) -> None:  # fmt: skip
        self._group, self._brokers, self._offsets, self._owned = group, brokers, offsets, owned
        self._others_commit = others_commit
        """Whether other members write the same offsets: not those of a broadcasting group."""
        self._stored = stored
        """What is known of offsets that were sent without waiting for an answer."""
        self._unreachable: set[str] = set()
        self._committed = listeners.offsets_committed
        if self._committed is not None:
            offsets.keep_news()

    async def run(self) -> None:
        pause_ms, since_ms = limits.FLUSH_MS, 0
        while True:
            await asyncio.sleep(pause_ms / 1000)
            self.gather()
            since_ms += pause_ms
            if since_ms >= limits.RETELL_MS and self._others_commit:
                since_ms = 0
                self._say_again()
            pause_ms = limits.FLUSH_MS
            for queue, offset in self._offsets.dirty():
                if not await self._tell(queue, offset):
                    pause_ms = min(pause_ms, limits.PUT_OFF_MS)
            self._pass_on()

    def _pass_on(self) -> None:
        """Those that rode on pulls are among them."""
        if self._committed is None:
            return
        # A popped queue stands for all of a broker, by the number -1: what is counted of it is no offset.
        news = {queue: offset for queue, offset in self._offsets.news().items() if queue.number >= 0}
        if news:
            self._committed(self._group, news)

    def gather(self) -> None:
        """Read the windows: an offset may have moved inside a chunk that is still at work."""
        for pull in self._owned():
            window = pull.flow.window
            if window.has_news:  # most of a thousand queues have none in a second
                window.gathered = window.settle()
                self._offsets.advance(pull.queue, window.gathered)
                self._note_confirmed(pull)

    def _note_confirmed(self, pull: PullLoop) -> None:
        pull.flow.window.confirmed(max(self._offsets.held(pull.queue), self._stored(pull.queue)))

    def lacking(self, pull: PullLoop, *, has_kept: bool) -> int:
        """How many of the queue's handled messages will come again; `has_kept` as `Window.unconfirmed` says."""
        if pull.flow.window.is_closed:
            return pull.lost
        self._note_confirmed(pull)
        return pull.lost + pull.flow.window.unconfirmed(has_kept=has_kept)

    def _say_again(self) -> None:
        """All that is ours; a queue that is being given back has another owner by now, who knows better."""
        for pull in self._owned():
            if pull.flow.state is not QueueState.RETIRING:
                self._offsets.mark_unsent(pull.queue)

    async def _tell(self, queue: MessageQueue, offset: int) -> bool:
        """Whether it need not be told again soon: not while the first offset of its topic is under way."""
        try:
            # Asked for when it is sent: while others were told, or a connection was made again, this one may have moved
            # on, or have left with a confirmed offset that an older one must not follow.
            sent = await self._brokers.commit_one_way(self._group, queue, partial(self._offsets.committable, queue))
        except FrameworkError as error:
            if queue.broker not in self._unreachable:
                self._unreachable.add(queue.broker)
                told = log.debug if is_said(error) else log.warning
                told("commit failed", group=self._group, queue=str(queue), offset=offset, reason=str(error))
            return True
        self._unreachable.discard(queue.broker)
        if sent is None:
            return self._offsets.committable(queue) is None
        self._offsets.mark_sent(queue, sent)
        return True

    async def store(self, queue: MessageQueue, offset: int) -> None:
        """Have the broker hold exactly this offset, also one that lies further back. The next flush sends it where that
        fails.
        """
        try:
            await marks.stretched("an offset is moved")
            await self._brokers.commit(self._group, queue, offset)
        except FrameworkError as error:
            log.warning("commit failed", group=self._group, queue=str(queue), offset=offset, reason=str(error))

    async def flush(self, queue: MessageQueue) -> bool:
        """The queue's offset, confirmed by the broker; False (and logged) where that cannot be had."""
        offset = self._offsets.unconfirmed(queue)
        if offset is None:
            return True
        try:
            if marks.rarely("a flush fails"):
                raise BrokerUnreachable("a flush that failed")
            await self._brokers.commit(self._group, queue, offset)
            await marks.stretched("an offset is confirmed")
        except Superseded:
            log.info("flush skipped", group=self._group, queue=str(queue), offset=offset)
            return False
        except FrameworkError as error:
            log.warning("flush failed", group=self._group, queue=str(queue), offset=offset, reason=str(error))
            return False
        self._offsets.confirmed(queue, offset)
        self._pass_on()
        return True
