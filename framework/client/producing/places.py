"""Places: how many sends may be under way at once. Who has waited longest goes first.

As asyncio's semaphore, whose four calls per send cost more than all that is looked at here; a free place is a number.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress


class Places:
    """One a producer. Hold one by `async with places:`, or take one by `free -= 1` where `free` is above 0, or by
    `take`; give each back.
    """

    __slots__ = ("_waiting", "free")

    def __init__(self, most: int) -> None:
        self.free = most
        """0 while anybody waits."""
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def __aenter__(self) -> None:
        await self.take()

    async def __aexit__(self, *_: object) -> None:
        self.give()

    async def take(self) -> None:
        """Wait for a place."""
        if self.free:
            self.free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                with suppress(ValueError):
                    self._waiting.remove(turn)
            else:
                self.give()  # it was given one in the very turn of the loop in which it was cancelled
            raise

    def give(self) -> None:
        """To the next who waits, or to whoever comes."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self.free += 1
