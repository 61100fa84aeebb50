"""Every loop is supervised: an unexpected error is logged with the loop's name, and the loop goes on after a backoff.

A consumer that stops silently is the worst of all failures: it looks healthy and handles nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from framework.core import limits
from framework.core.backoff import Backoff
from framework.ports import Chance

log = structlog.get_logger()


async def supervised(name: str, loop: Callable[[], Awaitable[None]], chance: Chance) -> None:
    """Run `loop` until it returns or is cancelled; start it again whenever it fails."""
    backoff = Backoff(limits.FAILURE_DELAY_MS, limits.FAILURE_DELAY_MAX_MS)
    while True:
        try:
            await loop()
        except Exception:  # border: the loop's
            delay_ms = backoff.failed(chance.random())
            log.exception("loop failed", loop=name, failures=backoff.failures, again_in_ms=delay_ms)
            await asyncio.sleep(delay_ms / 1000)
        else:
            return
