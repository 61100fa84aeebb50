"""Counts what a message costs in calls and in allocations. Seconds differ between machines and loads; these do not.

An allocation is a block of memory more than at the call, return or C call before. What is made and dropped between two
of them is not seen, nor are Python's own free lists; frames are, since watching a call makes an object of its frame.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Callable, Coroutine
from types import FrameType
from typing import Any, NamedTuple

from structlog.testing import capture_logs

from benchmarks.cost import decoding, sending
from benchmarks.cost.engine import CASES, QUEUES, Engine, Standing

Work = Callable[[int], Coroutine[Any, Any, int | None]]
"""Puts so many messages through, or the number that it answers; what it does once, whatever their number, falls out."""
Note = Callable[[FrameType, str, Any], object]
ALL = (*CASES, *decoding.CASES, *sending.CASES)


class Spent(NamedTuple):
    """A message's share."""

    python: float
    """Calls of Python's functions."""
    c: float
    """Calls of functions written in C."""
    blocks: float
    """Allocations."""


def spent(case: str, *, pull: int = 32, rounds: int = 4) -> Spent:
    """What a longer run adds to a shorter one, a message."""
    work = work_of(case, pull)
    step = sending.AT_ONCE if case in sending.CASES else pull * QUEUES
    _watched(work, step, lambda *_: None)  # what is made once, and kept, is there
    few, many = (_counted(work, step * each) for each in (rounds, 2 * rounds))
    # Fewer rounds: asking for the blocks takes far longer than a call, and each round is like the one before.
    held_by_few, held_by_many = (_allocated(work, step * each) for each in (2, 4))
    python, c, messages = (after - before for before, after in zip(few, many, strict=True))
    blocks, beside = (after - before for before, after in zip(held_by_few, held_by_many, strict=True))
    return Spent(python / messages, c / messages, blocks / beside)


def work_of(case: str, pull: int) -> Work:
    if case in decoding.CASES:
        return decoding.CASES[case]
    if case in sending.CASES:
        return sending.CASES[case]
    return lambda messages: Engine(case, most=messages, pull=pull, is_counted=True).run()


def _counted(work: Work, messages: int) -> tuple[int, int, int]:
    """Calls of both kinds, and how many messages they were for."""
    python = built_in = 0

    def note(frame: FrameType, event: str, _: Any) -> None:
        nonlocal python, built_in
        if frame.f_code.co_filename == sending.__file__:
            return
        if event == "call":
            python += not frame.f_code.co_name.endswith("comp>")  # Python 3.12 makes no call of a comprehension
        elif event == "c_call":
            built_in += 1

    handled = _watched(work, messages, note)
    return python, built_in, handled


def _allocated(work: Work, messages: int) -> tuple[int, int]:
    """The same of blocks."""
    now = sys.getallocatedblocks
    total, last = 0, now()

    def note(frame: FrameType, _: str, __: Any) -> None:
        nonlocal total, last
        held = now()
        if held > last and frame.f_code.co_filename != sending.__file__:
            total += held - last
        last = held

    handled = _watched(work, messages, note)
    return total, handled


def _watched(work: Work, messages: int, note: Note) -> int:
    async def run() -> int:
        loop = asyncio.get_running_loop()
        loop.time = Standing().monotonic  # type: ignore[method-assign]  # no timer fires, however slow the machine is
        before = sys.getprofile()
        sys.setprofile(note)
        try:
            return await work(messages) or messages
        finally:
            sys.setprofile(before)

    gc.collect()
    gc.disable()
    try:
        with capture_logs():
            return asyncio.run(run())
    finally:
        gc.enable()
