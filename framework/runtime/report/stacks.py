"""Stacks: where every task and thread of this process is, as text in the layout of Java's jstack.

Names of functions, files and lines only: neither values nor source lines, in which a secret could stand.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict
from types import FrameType
from typing import Any

import structlog

from framework.model.snapshot import Snapshot
from framework.net.task_tree import FRAMES_MAX, PLACE_MAX, awaited, line_of, running_tasks

TASKS_MAX = 300
# Enough for every task and thread above at a usual depth; the answer's frame may have 16 MiB.
TEXT_MAX = 512 * 1024
NAME_WIDTH = 40
NAME_MAX = 80


def stacks() -> str:
    """One paragraph a task, then one a thread. Cut where it would become too long, and says so."""
    return _text((*_tasks(), *_threads()))


def stacks_of_tasks() -> str:
    """On the event loop's thread only."""
    return _text(_tasks())


def stacks_of_threads() -> str:
    """From any thread."""
    return _text(_threads())


def _text(paragraphs: Iterable[list[str]]) -> str:
    text = "\n".join(["\n".join(lines) + "\n" for lines in paragraphs])
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}\n... cut after {TEXT_MAX} characters\n"


def _tasks() -> Iterator[list[str]]:
    tasks = running_tasks()
    for number, task in enumerate(tasks[:TASKS_MAX]):
        state = "RUNNABLE" if task is asyncio.current_task() else "WAITING"
        yield _paragraph(task.get_name(), f"TASK: {number} STATE: {state}", list(awaited(task.get_coro())))
    if len(tasks) > TASKS_MAX:
        yield [f"... and {len(tasks) - TASKS_MAX} more tasks"]


def place_of(worker: Any) -> str:
    """Where a task, or the thread of this number, is now: the innermost frames, one after the other."""
    return " < ".join(frames_of(worker)[:PLACE_MAX]) or "nowhere any more"


def frames_of(worker: Any) -> list[str]:
    """The same a line a frame, the innermost first."""
    if isinstance(worker, asyncio.Task):
        return list(awaited(worker.get_coro()))[::-1]
    return list(_frames(sys._current_frames().get(worker)))  # noqa: SLF001 - as below


def _frames(frame: FrameType | None) -> Iterator[str]:
    for _ in range(FRAMES_MAX):
        if frame is None:
            return
        yield line_of(frame.f_code, frame.f_lineno)
        frame = frame.f_back


def _threads() -> Iterator[list[str]]:
    frames = sys._current_frames()  # noqa: SLF001 - the documented way to them, underscore and all
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident in sorted(frames):
        lines = list(_frames(frames[ident]))
        state = "RUNNABLE" if ident == threading.get_ident() else "UNKNOWN"
        yield _paragraph(f"thread {names.get(ident, 'unknown')}", f"TID: {ident} STATE: {state}", lines)


def _paragraph(name: str, title: str, lines: list[str]) -> list[str]:
    left = f"{name[:NAME_MAX]:<{NAME_WIDTH}}"
    # A task's innermost frame first, as Java's readers expect; threads come in that order.
    ordered = reversed(lines) if title.startswith("TASK") else lines
    return [f"{left}{title}", *(f"{left}{line}" for line in ordered)]


log = structlog.get_logger()


def teller(loop: asyncio.AbstractEventLoop, snapshot: Callable[[], Snapshot] | None = None) -> Callable[[], None]:
    """What to call on SIGUSR1, on any thread but the loop's: where every thread and task is and what the application
    looks like, as lines of the log. Threads first: where the event loop is blocked, they are what shows by whom.
    """

    def tell() -> None:
        log.warning("threads", reason="SIGUSR1", stacks=stacks_of_threads())
        with suppress(RuntimeError):  # the loop is closed: it has ended
            loop.call_soon_threadsafe(tell_tasks)

    def tell_tasks() -> None:
        log.warning("tasks", reason="SIGUSR1", stacks=stacks_of_tasks())
        if snapshot is not None:
            log.warning("snapshot", reason="SIGUSR1", **asdict(snapshot()))

    return tell
