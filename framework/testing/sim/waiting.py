"""Which task waits where: the text for a deadlock, and for a run that ran out of time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

LISTED_MAX = 40


def list_waiting(tasks: Iterable[asyncio.Task[Any]]) -> list[str]:
    """One line a task that is not done, the first forty: its name and the innermost place where it waits."""
    lines = [f"{task.get_name()} in {_place(task)}" for task in tasks if not task.done()]
    if len(lines) > LISTED_MAX:
        lines[LISTED_MAX:] = [f"and {len(lines) - LISTED_MAX} more"]
    return lines


def _place(task: asyncio.Task[Any]) -> str:
    awaited: Any = task.get_coro()
    place = "its first step"
    while awaited is not None:
        frame = _either(awaited, "cr_frame", "gi_frame", "ag_frame")
        if frame is None:
            break
        code = frame.f_code
        place = f"{code.co_qualname} ({Path(code.co_filename).name}:{frame.f_lineno})"
        awaited = _either(awaited, "cr_await", "gi_yieldfrom", "ag_await")
    return place


def _either(thing: object, *names: str) -> Any:
    """Coroutines and generators keep the same things under different names."""
    for name in names:
        if hasattr(thing, name):
            return getattr(thing, name)
    return None
