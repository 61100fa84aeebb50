"""TaskTree: tasks that end together, in the order in which they were started.

The one place that starts tasks. asyncio's own TaskGroup keeps its tasks in a set and cancels them in the order of their
addresses, which differs from run to run. It knows nothing of what the tasks do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from pathlib import PurePath
from types import CodeType
from typing import Any, TypeVar

import structlog

T = TypeVar("T")
OnError = Callable[[str, BaseException], None]

log = structlog.get_logger()

CLOSE_SECONDS = 5.0
"""How long tasks that were cancelled may take to tidy up: one that swallows its cancellation would take for ever."""
FRAMES_MAX = 40
PLACE_MAX = 6


@dataclass(slots=True)
class LoopFailures:
    """What became of loops of one name that were started again after an error."""

    count: int = 0
    reason: str = ""
    """Of the last one."""
    standing_back: int = 0
    """How many of them wait now until they are tried again."""

    def add(self, reason: str) -> None:
        self.count += 1
        self.standing_back += 1
        self.reason = reason


def log_error(name: str, error: BaseException) -> None:
    """What happens to a child's error where nobody asked to be told."""
    log.error("task failed", task=name, reason=repr(error), exc_info=error)


def running_tasks() -> list[asyncio.Task[Any]]:
    """Every task of this loop, by name: for pictures. What asyncio itself knows is a set."""
    return sorted(asyncio.all_tasks(), key=lambda task: task.get_name())


def is_to_end(task: asyncio.Task[Any]) -> bool:
    """Whether a cancellation of this task, which runs, is its owner's wish: its tree was closed.

    Code that runs in the task may cancel it as well, and that is no reason to end. Of a task that no tree has started,
    nobody can tell who cancelled it.
    """
    tree = _TREE.get()
    if tree is not None and tree.owns(task):
        return tree.is_closed
    return task.cancelling() > 0


def place_of(task: asyncio.Task[Any]) -> str:
    """Where a task waits: the innermost frames, one after the other."""
    return " < ".join(list(awaited(task.get_coro()))[::-1][:PLACE_MAX]) or "nowhere any more"


def awaited(coro: Any) -> Iterator[str]:
    """From a task's own coroutine inwards, along what each one awaits."""
    for _ in range(FRAMES_MAX):
        frame = getattr(coro, "cr_frame", None) or getattr(coro, "gi_frame", None)
        if frame is None:
            if coro is not None:
                yield f"awaits {type(coro).__name__}"
            return
        yield line_of(frame.f_code, frame.f_lineno)
        coro = getattr(coro, "cr_await", None) or getattr(coro, "gi_yieldfrom", None)


def line_of(code: CodeType, number: int | None) -> str:
    """The file by its last two parts: where a machine keeps its packages is nobody's business."""
    place = "/".join(PurePath(code.co_filename).parts[-2:])
    return f"{code.co_qualname}({place}:{number or 0})"


class TaskTree:
    """Tasks with one owner. A child's exception is reported once, to `on_error(name, error)`, and hurts no sibling."""

    def __init__(self, on_error: OnError = log_error) -> None:
        self._on_error = on_error
        self._tasks: dict[asyncio.Task[Any], None] = {}  # a dict keeps the order of creation
        self.is_closed = False
        self.failed_loops: dict[str, LoopFailures] = {}
        """By name; whoever supervises a loop of this tree notes it here."""

    def start(self, coro: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        """Start a child. On a tree that was closed the child is cancelled before its first step."""
        context = copy_context()
        context.run(_TREE.set, self)
        task = asyncio.get_running_loop().create_task(coro, name=name, context=context)
        self._tasks[task] = None
        task.add_done_callback(self._ended)
        if self.is_closed:
            task.cancel()
        return task

    def owns(self, task: asyncio.Task[Any]) -> bool:
        return task in self._tasks

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            self._on_error(task.get_name(), error)

    async def close(self) -> None:
        """Cancel every child in the order of creation; wait until all have ended. Those that do not in time are named.

        A child may close its own tree: it is then left out, and ends by itself.
        """
        self.is_closed = True
        current, loop = asyncio.current_task(), asyncio.get_running_loop()
        children = [task for task in self._tasks if task is not current]
        for task in children:
            task.cancel()
        until = loop.time() + CLOSE_SECONDS
        for task in children:
            # Of one task only: several would come back as a set, and none of their errors is raised here.
            if not task.done():
                await asyncio.wait((task,), timeout=max(until - loop.time(), 0))
        if left := [task for task in children if not task.done()]:
            log.error(
                "tasks left running",
                tasks=[task.get_name() for task in left], places=[place_of(task) for task in left],
                reason=f"cancelled, and still there after {CLOSE_SECONDS:g} s",
            )  # fmt: skip

    def __len__(self) -> int:
        return len(self._tasks)

    def __repr__(self) -> str:
        return f"<TaskTree {', '.join(task.get_name() for task in self._tasks) or 'empty'}>"


async def in_time(seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """What the work answers; TimeoutError where that takes longer.

    An answer that has come counts, however late this process gets to look: where a loop stood still, `asyncio.timeout`
    ends a wait in the very turn in which its answer is read.
    """
    tree = TaskTree(on_error=lambda *_: None)  # whoever waits gets the error
    try:
        task = tree.start(work, name="in time")
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.shield(task)
        except TimeoutError:
            if not task.done():
                raise
            return task.result()
    finally:
        await tree.close()


_TREE: ContextVar[TaskTree | None] = ContextVar("framework_task_tree", default=None)
"""Whose task the code that asks runs in, or was started from."""
