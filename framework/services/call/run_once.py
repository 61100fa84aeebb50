"""Run once: one call of a handler, and what its end means, for every caller.

Everything that a handler raises is its message's failure: an exception, a panic of a library that is no `Exception`, a
cancellation that only the handler asked for. Three things pass through: the end of the task that it runs in, if we want
that; the end of the program (`sys.exit()`, an interrupt); the closing of a coroutine whose task is gone.
The hot loops of `pool/tasks.py` and `pool/threads.py` write the call out and leave the judgement to this module.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from threading import get_ident
from typing import Any, TypeVar, cast

from framework.core.results import failure_of
from framework.hooks.failures import is_raised
from framework.net.task_tree import is_to_end
from framework.net.wakeup import bring_home
from framework.ports import Workers
from framework.services.pool.run import RUNNING, is_given_up

T = TypeVar("T")
ENDS = (SystemExit, KeyboardInterrupt)
"""What a handler is not kept from raising: the program's end."""


def run_once(call: Callable[[T], Any], given: T, *, is_async: bool, workers: Workers) -> Coroutine[Any, Any, object]:
    """What the handler returned, or the exception that it raised, where it runs: awaited, or in a thread."""
    if is_async:
        return awaited(call, given)
    return awaited(on_thread, workers, partial(at_once, call, given))


async def awaited(call: Callable[..., Any], *arguments: object) -> object:
    """The same of anything that is awaited in this task."""
    task = asyncio.current_task()
    assert task is not None, "only a task awaits a handler"
    try:
        result = await cast("Awaitable[object]", call(*arguments))
    except BaseException as error:  # noqa: BLE001 - border: the handler's
        result = failure_awaited(error)
    if task.cancelling():
        await heeded(task)
    return result


def at_once(call: Callable[..., object], *arguments: object) -> object:
    """The same of a plain function, where it runs."""
    try:
        return call(*arguments)
    except BaseException as error:  # noqa: BLE001 - border: the handler's
        return failure_at_once(error)


def failure_at_once(error: BaseException) -> Exception:
    """What a plain function raised. Nobody cancels or closes one: where it says so, a loop of its own was."""
    if isinstance(error, ENDS):
        raise error
    return _cancelled(error) if isinstance(error, asyncio.CancelledError) else failure_of(error)


def failure_awaited(error: BaseException) -> Exception:
    """What came out of an await, as a failure; raised again where it is none of the handler's."""
    if isinstance(error, GeneratorExit) and not is_raised(error):
        raise error  # thrown into a coroutine whose task is gone
    if not isinstance(error, asyncio.CancelledError):
        return failure_at_once(error)
    current = asyncio.current_task()
    if current is None or is_to_end(current) or is_given_up():
        raise error
    _forget_cancellations(current)
    return _cancelled(error)


async def heeded(task: asyncio.Task[Any]) -> None:
    """Behind a handler that ended although its task was cancelled: end here if that was ours, and forget it if not.

    A handler that cancels its own task and returns would have the next await of ours, or the next message, pay for it.
    """
    if is_to_end(task):
        raise asyncio.CancelledError
    if is_given_up():
        return  # its worker leaves anyway
    try:
        await asyncio.sleep(0)
    except asyncio.CancelledError as error:
        failure_awaited(error)
    _forget_cancellations(task)


def _forget_cancellations(task: asyncio.Task[Any]) -> None:
    while task.cancelling():
        task.uncancel()


def _cancelled(error: BaseException) -> Exception:
    said = f": {error}" if str(error) else ""
    return RuntimeError(f"the handler was cancelled from within{said}").with_traceback(error.__traceback__)


async def on_thread(workers: Workers, job: Callable[[], T]) -> T:
    """What the job returns or raises, late or not: a plain function of a handler, or several, while a worker waits for
    it in its place. It is left to itself where everything of ours ends.

    A thread cannot be stopped. So the worker stays until the job has ended, whoever cancels it, a limit or a plugin:
    what hangs keeps its place, however it is run. `pool/threads.py` runs what needs no worker beside its thread.
    """
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
