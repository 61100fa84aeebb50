"""AskedStore: calls a group's store of progress, with a time limit, so that no store can block a queue unnoticed.

A store comes from a plugin. One that takes longer than a second is logged, once until it has been quick for a minute.
One that never answers, or raises a foreign exception, has failed, and its group does what it does of any failure.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from framework import marks
from framework.errors import FrameworkError, StoreError, shorten
from framework.hooks.failures import plugin_failure_awaited
from framework.model.contracts import KeepsProgress, Kept
from framework.model.queue import MessageQueue
from framework.ports import Clock

log = structlog.get_logger()

PATIENCE_SECONDS = 30.0  # as for a pull; what is kept at brokers tries each request for less
SLOW_SECONDS = 1.0  # a record is due each second
QUIET_SECONDS = 60.0

T = TypeVar("T")


class AskedStore:
    """Has a store's three calls. Which failure is which is the store's own word, where it is one of ours."""

    def __init__(self, group: str, name: str, store: KeepsProgress, clock: Clock) -> None:
        self._group, self._name, self._store, self._clock = group, name, store, clock
        self._last_slow = float("-inf")

    async def read(self, queue: MessageQueue) -> Kept | None:
        return await self._asked(queue, self._store.read, queue)

    async def take(self, queue: MessageQueue, content: bytes) -> int:
        return await self._asked(queue, self._store.take, queue, content)

    async def write(self, queue: MessageQueue, epoch: int, content: bytes) -> None:
        await self._asked(queue, self._store.write, queue, epoch, content)

    async def _asked(self, queue: MessageQueue, ask: Callable[..., Awaitable[T]], *given: object) -> T:
        began = self._clock.monotonic()
        try:
            async with asyncio.timeout(PATIENCE_SECONDS) as patience:
                if marks.rarely("a store of progress fails"):
                    raise StoreError(f"progress of {queue}: a store that failed")
                await marks.stretched("a store of progress is asked")
                answer = await ask(*given)
                await marks.stretched("a store of progress has answered")
        except FrameworkError:
            raise
        except BaseException as error:  # border: a plugin's
            plugin_failure_awaited(error)
            if patience.expired():
                raise FrameworkError(f"progress store {self._name}: no answer in {PATIENCE_SECONDS:g} s") from error
            raise FrameworkError(
                f"progress store {self._name}: {type(error).__name__}: {shorten(str(error))}"
            ) from error
        now = self._clock.monotonic()
        if now - began > SLOW_SECONDS:
            before, self._last_slow = self._last_slow, now
            if now - before > QUIET_SECONDS:
                log.warning(
                    "progress store slow",
                    group=self._group, queue=str(queue), store=self._name, elapsed_ms=round((now - began) * 1000),
                )  # fmt: skip
        return answer

    def __repr__(self) -> str:
        return f"<AskedStore {self._name} of {self._group}>"
