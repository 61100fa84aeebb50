"""run(): runs one coroutine on one virtual loop, from the seed to the end of its tasks."""

from __future__ import annotations

import gc
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from framework.testing.sim.virtual_loop import Policy, VirtualLoop

T = TypeVar("T")


def run(main: Callable[[VirtualLoop], Coroutine[Any, Any, T]], *, seed: int = 0, policy: Policy = "shuffle") -> T:
    """Run `main(loop)` to its end in virtual time."""
    loop = VirtualLoop(seed, policy=policy)
    return run_on(loop, main(loop))


def run_on(loop: VirtualLoop, main: Coroutine[Any, Any, T]) -> T:
    """The same on a loop the caller made, whose figures stay readable afterwards.

    The garbage collector is off meanwhile: when it runs depends on memory, and finalizers are steps nobody drew.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return loop.run_until_complete(main)
    finally:
        loop.trace_hash()
        loop.bury()
        if collects:
            gc.enable()
