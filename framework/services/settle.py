"""Settler: carries out what `core.retry` decided where the broker must keep a copy.

The order is the promise: the copy is durable on the broker, and only then has the message ended here. Where the broker
cannot be reached, the message is parked and only the *sending* is tried again; the worker has long gone on.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import structlog

from framework import marks
from framework.core import limits
from framework.core.backoff import Backoff
from framework.core.chunk import Chunk
from framework.core.retry import SendBack
from framework.core.window import Window
from framework.errors import FrameworkError
from framework.model.message import Message
from framework.net.task_tree import TaskTree
from framework.ports import Chance

log = structlog.get_logger()


class SendsBack(Protocol):
    """The one call of the client that settling needs."""

    async def send_back(self, message: Message, group: str, *, delay_level: int, max_retries: int) -> None: ...


@dataclass(slots=True)
class Parked:
    """One message whose copy is not on the broker yet."""

    chunk: Chunk
    index: int
    message: Message
    decision: SendBack
    settled: Callable[[Parked], None]
    """Called once, when the copy is durable."""
    backoff: Backoff


class Settler:
    """One per group: at most SETTLERS send-backs under way, as many tasks as there is work for."""

    def __init__(self, group: str, max_retries: int, brokers: SendsBack, tree: TaskTree, chance: Chance) -> None:
        self._group, self._max_retries = group, max_retries
        self._brokers, self._tree, self._chance = brokers, tree, chance
        self._waiting: deque[Parked] = deque()
        self._working = 0
        """Tasks; one that was only just started has no message yet."""
        self._sending = 0
        self._parked = 0
        self._of_window: dict[Window, int] = {}

    @property
    def pending(self) -> int:
        """Messages whose copies are not durable yet."""
        return len(self._waiting) + self._sending + self._parked

    def pending_for(self, window: Window) -> int:
        """The same for one queue: it is not left before they are, or only at the drain limit."""
        return self._of_window.get(window, 0)

    def put(self, chunk: Chunk, index: int, decision: SendBack, settled: Callable[[Parked], None]) -> None:
        """Have the broker keep a copy of the message, then call `settled`."""
        backoff = Backoff(limits.FAILURE_DELAY_MS, limits.FAILURE_DELAY_MAX_MS)
        job = Parked(chunk, index, chunk.messages[index], decision, settled, backoff)
        self._of_window[chunk.window] = self._of_window.get(chunk.window, 0) + 1
        if not marks.safeguard("the copy is durable before the source is settled"):
            settled(job)
        self._enqueue(job)

    def _done_with(self, job: Parked) -> None:
        window = job.chunk.window
        left = self._of_window.pop(window) - 1
        if left:
            self._of_window[window] = left

    def _enqueue(self, job: Parked) -> None:
        self._waiting.append(job)
        if self._working < limits.SETTLERS:
            self._working += 1
            self._tree.start(self._work(), name=f"settle {self._group}")

    async def _work(self) -> None:
        try:
            while self._waiting:
                try:
                    await self._settle(self._waiting.popleft())
                except Exception:  # border: the loop's; one job's surprise must not leave the others waiting
                    log.exception("settling failed", group=self._group)
        finally:
            self._working -= 1

    async def _settle(self, job: Parked) -> None:
        level = job.decision.level
        self._sending += 1
        try:
            await self._brokers.send_back(job.message, self._group, delay_level=level, max_retries=self._max_retries)
        except FrameworkError as error:
            self._park(job, error)
            return
        finally:
            self._sending -= 1
        if job.backoff.failures:
            log.info(
                "message unparked", group=self._group, queue=str(job.message.queue), offset=job.message.queue_offset
            )
        self._done_with(job)
        if marks.safeguard("the copy is durable before the source is settled"):
            job.settled(job)

    def _park(self, job: Parked, error: FrameworkError) -> None:
        """Try the sending again later. The message stays unfinished, so no commit passes it."""
        marks.sometimes("a message was parked")
        if not job.backoff.failures:
            log.warning(
                "message parked",
                group=self._group, queue=str(job.message.queue), offset=job.message.queue_offset, reason=str(error),
            )  # fmt: skip
        delay_ms = job.backoff.failed(self._chance.random())
        self._parked += 1
        asyncio.get_running_loop().call_later(delay_ms / 1000, self._unpark, job)

    def _unpark(self, job: Parked) -> None:
        self._parked -= 1
        if job.chunk.window.is_closed or not marks.safeguard("a parked message is sent again"):
            self._done_with(job)  # the queue's next owner is given the message again
        else:
            self._enqueue(job)

    def __repr__(self) -> str:
        return f"<Settler {self._group}: {self._sending} sending, {len(self._waiting)} waiting, {self._parked} parked>"
