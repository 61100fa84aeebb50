"""Turns: which connection's next request is served. It knows neither bytes nor requests, only what serving took.

Whoever has had least goes first, and who comes back after a while begins where the others are: nobody saves up. So one
that sends a thousand requests at once, or dear ones, waits for itself and keeps nobody else waiting. After a slice the
loop has its turn, which reads what others have sent meanwhile.
"""

from __future__ import annotations

import asyncio
from heapq import heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from framework.net.served import Served

SLICE_S = 0.01  # as long as a group of writes holds the loop
SLICE_STEPS = 256  # the same for a simulation, whose clock stands still meanwhile
STEP_S = 20e-6  # what a step counts at least: reading it, and looking who is next


class Turns:
    """One for the ports of a process."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: list[tuple[float, int, Served]] = []
        self._sequence = 0
        self._floor = 0.0
        """What those who wait have had at least."""
        self._is_due = False

    def enter(self, taker: Served) -> None:
        """It has something to do."""
        if taker.is_waiting:
            return
        taker.is_waiting = True
        taker.used = max(taker.used, self._floor)
        self._queue(taker)
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._run)

    def _queue(self, taker: Served) -> None:
        self._sequence += 1
        heappush(self._waiting, (taker.used, self._sequence, taker))

    def _run(self) -> None:
        try:
            self._serve()
        finally:  # who raises loses his own turn, and nobody else's
            self._is_due = bool(self._waiting)
            if self._is_due:
                self._loop.call_soon(self._run)

    def _serve(self) -> None:
        waiting, now = self._waiting, self._loop.time()
        until = now + SLICE_S
        for _ in range(SLICE_STEPS):
            self._floor, _, taker = heappop(waiting)
            has_more = False
            try:
                has_more = taker.step()
            finally:
                before, now = now, self._loop.time()
                taker.used += now - before + STEP_S
                if has_more:
                    self._queue(taker)
                else:
                    taker.is_waiting = False
            if not waiting or now >= until:
                return
