"""Faults: whose it is that a run of a handler failed. Spark evaluates lazily, so that what it reads fails within.

What tells them apart is where in the JVM an error was raised, as its stack has it. Words would lie: a message's body
may stand in an error's text.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any

from framework_spark.causes import is_io_error, thrown
from framework_spark.limit import JobOverLimit

DEATHS_MAX = 5
"""Runs of one batch that may end with a process of Spark's in a row: from then on the handler is what kills them."""

_READING = "org.apache.spark.sql.execution.datasources.v2.python.PythonStreamingPartitionReaderFactory"
_PYTHON = "org.apache.spark.api.python."
_SCHEDULER = "org.apache.spark.scheduler.DAGScheduler"
_DEPTH_MAX = 20  # of causes of causes


class Fault(Enum):
    HANDLER = "handler"
    READING = "reading"
    """Of the query's messages: a broker is away, offsets are gone, the process that reads has died."""
    SPARK = "spark"
    """A worker or executor died, or a job was cancelled. The handler may be what killed it."""


def fault_of(error: BaseException) -> tuple[Fault, BaseException]:
    """Of what a handler's run raised while its session lives, and which of the errors in its chain shows it."""
    if isinstance(error, JobOverLimit):
        return Fault.HANDLER, error
    try:
        return _found(error)
    except Exception:  # noqa: BLE001 - border: a JVM that dies while it is asked
        return Fault.SPARK, error


def _found(error: BaseException) -> tuple[Fault, BaseException]:
    found = (Fault.HANDLER, error)
    for each in _chained(error):
        for one in thrown(each):
            names = [frame.getClassName() for frame in one.getStackTrace()]
            if any(name.startswith(_READING) for name in names):
                return Fault.READING, each
            if _is_death(one, names):
                found = (Fault.SPARK, each)
    return found


def _is_death(one: Any, names: list[str]) -> bool:
    """A pipe to a Python process broke, or a job ended without an error of any task."""
    if one.getCause() is not None:
        return False
    is_of_python = is_io_error(one) and any(name.startswith(_PYTHON) for name in names)
    return is_of_python or (bool(names) and names[0].startswith(_SCHEDULER))


def _chained(error: BaseException) -> Iterator[BaseException]:
    """It, and those because of which it was raised: a handler may have said so in words of its own."""
    seen: list[BaseException] = []
    waiting: list[BaseException | None] = [error]
    while waiting and len(seen) < _DEPTH_MAX:
        each = waiting.pop()
        if each is None or any(each is other for other in seen):
            continue
        seen.append(each)
        yield each
        waiting += [each.__context__, each.__cause__]
