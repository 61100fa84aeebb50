"""Telling: on SIGUSR1, where every thread and task is and what the application looks like, as lines of the log.

Threads first, and from a thread of its own: where the event loop is blocked, they are what shows by whom.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict

import structlog

from framework.model.snapshot import Snapshot
from framework.runtime.report.stacks import stacks_of_tasks, stacks_of_threads

log = structlog.get_logger()


def teller(loop: asyncio.AbstractEventLoop, snapshot: Callable[[], Snapshot] | None = None) -> Callable[[], None]:
    """What to call on any thread but the loop's."""

    def tell() -> None:
        log.warning("threads", reason="SIGUSR1", stacks=stacks_of_threads())
        with suppress(RuntimeError):  # the loop is closed: it has ended
            loop.call_soon_threadsafe(tell_tasks)

    def tell_tasks() -> None:
        log.warning("tasks", reason="SIGUSR1", stacks=stacks_of_tasks())
        if snapshot is not None:
            log.warning("snapshot", reason="SIGUSR1", **asdict(snapshot()))

    return tell
