"""One body for async and plain handlers: an `async def` that awaits nothing async runs to its end in one step.

So what is put around both kinds of handlers is written once, as a coroutine. Around a plain handler it only meets plain
contexts and functions, and `run_sync` calls it where it stands: no event loop, no task.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run_sync(coroutine: Coroutine[Any, Any, T]) -> T:
    """What the coroutine returns or raises; it must not suspend."""
    try:
        coroutine.send(None)
    except StopIteration as returned:
        value: T = returned.value
        return value
    except RuntimeError as error:
        # Python makes this of a StopIteration that leaves a coroutine; from a plain handler it came out as it was.
        if not isinstance(error.__cause__, StopIteration) or str(error) != "coroutine raised StopIteration":
            raise
        stop = error.__cause__
    else:
        coroutine.close()
        raise AssertionError(f"{coroutine} suspends, and a plain function calls it")
    raise stop
