"""Pacing: one group's `rate`. It hands on a pull result in portions, each when its time has come.

What waits for its time has not been admitted yet: if the queue is lost meanwhile, its next owner pulls it. So every
kind of worker pool keeps a rate without knowing of it, and no rate costs one `if` per pull.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from framework.core.budget import Bucket
from framework.model.pulled import Found
from framework.model.rate import Rate
from framework.net.wakeup import Wakeup
from framework.ports import Clock
from framework.services.queue.intake import Further


class Pacing:
    """One per group; its queues take turns in the order in which they ask."""

    def __init__(self, rate: Rate | None, clock: Clock) -> None:
        self._clock = clock
        self._turn = asyncio.Lock()
        self._bell = Wakeup()
        self.bucket: Bucket | None = None
        """None while nothing is limited."""
        self.change(rate)

    def change(self, rate: Rate | None) -> None:
        """Go on with this rate, at once: what was paid for at another one is forgotten."""
        if rate != (None if self.bucket is None else self.bucket.rate):
            self.bucket = None if rate is None else Bucket(rate, self._clock.monotonic() * 1000)
            self._bell.ring()

    async def turn(self, count: int) -> None:
        """Wait until so many messages may go."""
        async with self._turn:
            while (bucket := self.bucket) is not None:
                now_ms = self._clock.monotonic() * 1000
                if bucket.due_ms <= now_ms:
                    bucket.take(count, now_ms)
                    return
                await self._bell.wait(bucket.due_ms / 1000)

    def portions(self, found: Found, offset: int, least: int) -> Iterator[Found]:
        """A pull's answer from `offset` on, as several, each of which ends where the next one begins.

        `least` goes at once in any case: a batch is one call, however many it holds. What contradicts itself stays
        whole and is judged as such.
        """
        messages = [message for message in found.messages if message.queue_offset >= offset]
        most = max(self.bucket.portion if self.bucket is not None else len(messages), least)
        if len(messages) <= most or messages[-1].queue_offset >= found.next_offset:
            yield found
            return
        left = found.size
        for first in range(0, len(messages), most):
            portion = messages[first : first + most]
            is_last = first + most >= len(messages)
            end = found.next_offset if is_last else messages[first + most].queue_offset
            size = left if is_last else found.size * most // len(messages)
            left -= size
            yield Found(portion, size, end, found.min_offset, found.max_offset)

    def __repr__(self) -> str:
        return f"<Pacing {self.bucket}>"


class Paced:
    """One queue's answers, at its group's pace. Cancelling the pull loop ends the wait, as it ends a pull."""

    def __init__(self, pacing: Pacing, batch: int = 1) -> None:
        """`batch`: how many messages one call of the handler takes at most."""
        self._pacing, self._batch = pacing, batch
        self.is_waiting = False

    @property
    def is_open(self) -> bool:
        return self._pacing.bucket is None

    async def take(self, found: Found, begin: int, further: Further) -> bool:
        if self._pacing.bucket is None or not found.messages:
            return await further(found, begin)
        for portion in self._pacing.portions(found, begin, self._batch):
            self.is_waiting = True
            try:
                await self._pacing.turn(len(portion.messages))
            finally:
                self.is_waiting = False
            if not await further(portion, begin):
                return False
            begin = portion.next_offset
        return True
