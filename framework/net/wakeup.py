"""Wakeup: a bell with a deadline, for one sleeper. It knows neither who rings nor why.

Beside it, how the end of a job wakes who awaits it.
"""

from __future__ import annotations

import asyncio
from typing import TypeVar

T = TypeVar("T")


class Wakeup:
    """A ring that finds nobody waiting is kept for the next wait; many rings are one."""

    __slots__ = ("_is_rung", "_waiter")

    def __init__(self) -> None:
        self._is_rung = False
        self._waiter: asyncio.Future[None] | None = None

    def ring(self) -> None:
        """Wake the sleeper, or keep it from falling asleep the next time."""
        self._is_rung = True
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    async def wait(self, until: float | None = None) -> bool:
        """Sleep until somebody rings, or until the loop's clock shows `until`; whether it was a ring."""
        assert self._waiter is None, "a wakeup has one sleeper"
        loop = asyncio.get_running_loop()
        if not self._is_rung and (until is None or until > loop.time()):
            waiter = self._waiter = loop.create_future()
            timer = None if until is None else loop.call_at(until, _wake, waiter)
            try:
                await waiter
            finally:
                self._waiter = None
                if timer is not None:
                    timer.cancel()
        was_rung, self._is_rung = self._is_rung, False
        return was_rung

    def __repr__(self) -> str:
        return f"<Wakeup {'rung' if self._is_rung else 'asleep' if self._waiter else 'silent'}>"


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def bring_home(future: asyncio.Future[T], result: T | None, error: BaseException | None) -> None:
    """Give a job's end to who awaits it, on the loop's thread. Nothing happens where nobody waits any more."""
    if future.done():
        return
    if error is None:
        future.set_result(result)  # type: ignore[arg-type]  # T may itself be None
    elif isinstance(error, StopIteration | GeneratorExit):
        # Before Python 3.12 no future takes the one, and nobody would be told; the other closes who awaits it.
        failure = RuntimeError(f"{type(error).__name__}: {error}")
        future.set_exception(failure.with_traceback(error.__traceback__))
    else:
        future.set_exception(error)
