"""Finds the messages of a failed batch that are to blame, by running parts of it. Pure: the caller runs a part.

Only for functions that may get the same messages again: those that `side_effect_free` declares.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from framework.errors import shorten
from framework_spark.mistakes import HeldUp, SessionDied, SparkMisused, Stopping

RUNS = 40  # two bad rows among a thousand take about as many
_MARK = "__spark_runs__"

F = TypeVar("F", bound=Callable[..., Any])


def side_effect_free(*, runs: int = RUNS) -> Callable[[F], F]:
    """Declare that a handler may run again with parts of a batch that failed, at most `runs` times a batch.

    @consumer("clicks", group="revenue", engine="spark")
    @side_effect_free(runs=40)
    def revenue(clicks): ...
    """
    if not isinstance(runs, int) or isinstance(runs, bool) or runs < 2:
        raise SparkMisused(f"side_effect_free(runs={shorten(runs)}): write a whole number, 2 or more")

    def declared(function: F) -> F:
        if hasattr(function, "spec"):
            raise SparkMisused("@side_effect_free belongs to the function: write it below @consumer")
        setattr(function, _MARK, runs)
        return function

    return declared


def runs_of(function: Callable[..., object]) -> int:
    """How often the function may run again with parts of a batch; 0 where nobody said that it may."""
    return int(getattr(function, _MARK, 0))


def blamed(count: int, error: Exception, runs: int, run: Callable[[int, int], list[Any]]) -> tuple[list[Any], int]:
    """One result a message of a batch of `count` that raised `error`, and how many runs it took to know.

    `run(begin, end)` handles that part: one result a message, or what it raises. Large parts that failed are split
    before small ones, so that where `runs` are too few, as many messages as can be are cleared. A message whose part
    failed and could not be split further has that part's error.
    """
    results: list[Any] = [error] * count
    failed = deque([(0, count, error)])
    used = 0
    while failed and used < runs:
        begin, end, error = failed.popleft()
        if end - begin < 2:
            continue  # found; its error is there
        middle = (begin + end) // 2
        left_is_well = False
        for low, high in ((begin, middle), (middle, end)):
            if used == runs:
                break
            if left_is_well and high - low > 1:
                failed.append((low, high, error))  # it must be in there, which no run has to show
                continue
            used += 1
            try:
                results[low:high] = run(low, high)
                left_is_well = low == begin
            except (HeldUp, SessionDied, Stopping):
                raise
            except Exception as each:  # noqa: BLE001 - border: the handler's, and Spark's
                results[low:high] = [each] * (high - low)
                failed.append((low, high, each))
    return results, used
