"""Every loop is supervised: an unexpected error is logged with the loop's name and counted, and the loop runs again.

A consumer that stops silently is the worst of all failures: it looks healthy and handles nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from framework.core import limits
from framework.core.backoff import Backoff
from framework.net.task_tree import LoopFailures, TaskTree
from framework.ports import Chance

log = structlog.get_logger()

SOUND_SECONDS = 60.0
"""A loop that went on for as long is taken for mended: its next failure is its first again."""


def supervise(tree: TaskTree, name: str, loop: Callable[[], Awaitable[None]], chance: Chance) -> asyncio.Task[None]:
    """Start `loop` among the tree's tasks; it ends when it returns or is cancelled, and never by an error."""
    return tree.start(_supervised(tree, name, loop, chance), name=name)


async def _supervised(tree: TaskTree, name: str, loop: Callable[[], Awaitable[None]], chance: Chance) -> None:
    clock = asyncio.get_running_loop().time
    backoff = Backoff(limits.FAILURE_DELAY_MS, limits.FAILURE_DELAY_MAX_MS)
    while True:
        began = clock()
        try:
            await loop()
        except Exception as error:  # border: the loop's
            if clock() - began >= SOUND_SECONDS:
                backoff.succeeded()
            delay_ms = backoff.failed(chance.random())
            log.exception("loop failed", loop=name, failures=backoff.failures, retry_ms=delay_ms)
            failures = tree.failed_loops.setdefault(name, LoopFailures())
            failures.add(f"{type(error).__name__}: {error}")
            try:
                await asyncio.sleep(delay_ms / 1000)
            finally:
                failures.standing_back -= 1
        else:
            return
