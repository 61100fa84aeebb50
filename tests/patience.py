"""How tests wait for what other programs, threads and sockets do: until it is so, and never for less than a minute.

How long a machine takes says nothing about the code. So a wait has a bound that no machine needs, and its error names
what it waited for. What is really about time is asked in virtual time, or by a count.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

PATIENCE_S = 60.0
Result = TypeVar("Result")


def wait_until(
    holds: Callable[[], Result], what: str = "", patience_s: float = PATIENCE_S, *, pause_s: float = 0.02
) -> Result:
    """What `holds` answered when that was true for the first time."""
    deadline = time.monotonic() + patience_s
    while not (answer := holds()):
        if time.monotonic() > deadline:
            raise AssertionError(late(what, patience_s))
        time.sleep(pause_s)
    return answer


async def until(
    holds: Callable[[], Result], what: str = "", patience_s: float = PATIENCE_S, *, pause_s: float = 0.02
) -> Result:
    """The same on the test's own loop, which goes on meanwhile."""
    deadline = time.monotonic() + patience_s
    while not (answer := holds()):
        if time.monotonic() > deadline:
            raise AssertionError(late(what, patience_s))
        await asyncio.sleep(pause_s)
    return answer


async def soon(awaitable: Awaitable[Result], what: str = "", patience_s: float = PATIENCE_S) -> Result:
    """Its result. A test that would hang ends with a word about what did not come."""
    limit = asyncio.timeout(patience_s)
    try:
        async with limit:
            return await awaitable
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise AssertionError(late(what, patience_s)) from error


def late(what: str, patience_s: float) -> str:
    return f"{what or 'what the test waits for'} did not come about within {patience_s:g} s"
