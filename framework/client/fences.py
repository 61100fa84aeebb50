"""Fences: which commits carry the epoch of their acquisition, and which of those the broker has refused.

Once a group keeps its progress in the built-in broker, a former owner's late commit cannot move an offset back there.
Elsewhere there are no fences, and commits are unconditional.
"""

from __future__ import annotations

import asyncio

from framework.errors import Superseded
from framework.model.queue import MessageQueue
from framework.wire.codes import ResponseCode
from framework.wire.command import RemotingCommand


class Fence:
    """Of one queue of one group, as long as the application runs."""

    __slots__ = ("_beginnings", "epoch", "is_refused", "stored")

    def __init__(self) -> None:
        self.epoch: int | None = None
        """Which commits carry; None: they carry none."""
        self.stored = -1
        """As `Fences.stored` says."""
        self.is_refused = False
        """Whether a higher epoch was given out since: another member has taken the queue."""
        self._beginnings = 0

    def raise_to(self, epoch: int) -> None:
        self.epoch, self.is_refused = epoch, False
        self.begin()

    def begin(self) -> None:
        """The queue goes on from an offset that may lie below: what was stored before says nothing of it, nor does an
        answer that is still on its way.
        """
        self.stored, self._beginnings = -1, self._beginnings + 1

    def passed(self, answer: RemotingCommand, epoch: int | None, queue: MessageQueue) -> RemotingCommand:
        """The answer to a request under this epoch; Superseded where it was refused for that."""
        if answer.code != ResponseCode.BOX_EPOCH_OUTDATED:
            return answer
        if epoch == self.epoch:
            self.is_refused = True
        raise Superseded(f"{queue}: another member has taken the queue since epoch {epoch}")

    def watch(self, answer: asyncio.Future[RemotingCommand], epoch: int, queue: MessageQueue, offset: int) -> None:
        """Hear of a commit that nobody waits for."""
        beginning = self._beginnings

        def done(ended: asyncio.Future[RemotingCommand]) -> None:
            if ended.cancelled() or ended.exception() is not None:
                return  # not sent, or not answered: the next flush says it again
            try:
                passed = self.passed(ended.result(), epoch, queue)
            except Superseded:
                return  # whoever flushes next sees it
            if passed.code == ResponseCode.SUCCESS and beginning == self._beginnings:
                self.stored = offset

        answer.add_done_callback(done)


class Fences:
    """All of a cluster's, by group and queue."""

    def __init__(self) -> None:
        self._all: dict[tuple[str, MessageQueue], Fence] = {}

    def of(self, group: str, queue: MessageQueue) -> Fence:
        found = self._all.get((group, queue))
        if found is None:
            found = self._all[group, queue] = Fence()
        return found

    def stored(self, group: str, queue: MessageQueue) -> int:
        """The offset of the last commit that was confirmed without anybody waiting for it; -1 where there is none."""
        found = self._all.get((group, queue))
        return -1 if found is None else found.stored

    def epoch(self, group: str, queue: MessageQueue) -> int | None:
        """What a commit has to carry; nothing is made for queues that have no fence."""
        found = self._all.get((group, queue))
        return None if found is None else found.epoch
