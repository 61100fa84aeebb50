"""On a thread: a plain function of a handler, or several, while a worker waits for it in its place.

A thread cannot be stopped. So the worker stays until the job has ended, whoever cancels it, a limit or a plugin: what
hangs keeps its place, however it is run. `threads.py` runs what needs no worker beside its thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from threading import get_ident
from typing import TypeVar

from framework.net.task_tree import is_to_end
from framework.net.wakeup import bring_home
from framework.ports import Workers
from framework.services.crew.run import RUNNING, is_given_up

T = TypeVar("T")


async def on_thread(workers: Workers, job: Callable[[], T]) -> T:
    """What the job returns or raises, late or not. It is left to itself where everything of ours ends."""
    slot, task, loop = RUNNING.get(), asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None, "only a task awaits a thread"
    home: asyncio.Future[T] = loop.create_future()
    cancelled: asyncio.CancelledError | None = None

    def work() -> T:
        if slot is not None:
            slot.worker = get_ident()
        return job()

    workers.submit(work, lambda result, error: bring_home(home, result, error))
    try:
        while True:
            try:
                result = await home
            except asyncio.CancelledError as error:
                if not home.cancelled() or is_to_end(task):
                    raise  # the job's own, or everything ends
                cancelled, home = error, loop.create_future()
                continue
            if cancelled is not None and not is_given_up():
                raise cancelled  # a plugin's that waits no longer, say
            return result
    finally:
        if slot is not None:
            slot.worker = task
