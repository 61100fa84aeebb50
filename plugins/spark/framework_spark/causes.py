"""What caused an error, in one line, and whose fault it is that a run of a handler failed.

Spark wraps an error of Python in several of its own, and adds its plan. It evaluates lazily, so that what it reads
fails within a handler. What tells faults apart is where in the JVM an error was raised, as its stack has it. Words
would lie: a message's body may stand in an error's text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from typing import Any

from framework_spark.limit import JobOverLimit

MOST = 500
_TRACEBACK = "Traceback (most recent call last):\n"
_CAUSED_BY = re.compile(r"^Caused by: (.+)$", re.MULTILINE)
# Where Spark's words go on behind an error's: its state, the query's plan, frames of the JVM.
_BEHIND = re.compile(r"\s+SQLSTATE: |\n=== Streaming Query ===|\n\s*at [\w.$]+\(|\n\n")
_UNSAID = re.compile(r"terminated with exception:\s+SQLSTATE: ")
_SOURCE_RUNNER = "org.apache.spark.sql.execution.python.streaming.PythonStreamingSourceRunner"
SOURCE_DIED = "the Python process that Spark asks for offsets has ended; what it said last is in the driver's stderr"
_DEPTH_MAX = 20  # of causes of causes
_CALLED = re.compile(r"^Py4JJavaError: An error occurred while calling [^\n]*\n: ")
_MODULES = re.compile(r"^(?:[A-Za-z_]\w*\.)+(?=[A-Z]\w*(?::|$))")
DEATHS_MAX = 5
"""Runs of one batch that may end with a process of Spark's in a row: from then on the handler is what kills them."""

_READING = "org.apache.spark.sql.execution.datasources.v2.python.PythonStreamingPartitionReaderFactory"
_PYTHON = "org.apache.spark.api.python."
_SCHEDULER = "org.apache.spark.scheduler.DAGScheduler"


def cause_of(error: BaseException) -> str:
    """`Type: text`. Of Python's errors in Spark's the innermost, of the JVM's the last cause."""
    text = str(error)
    _, marker, tail = text.rpartition(_TRACEBACK)
    raised = _raised(tail) if marker else ""
    if raised:
        return _shown(raised)
    causes = _CAUSED_BY.findall(text)
    return _shown(causes[-1] if causes else _unsaid(error) or f"{type(error).__name__}: {text}")


def thrown(error: BaseException) -> Iterator[Any]:
    """The JVM's exceptions behind one of Python's."""
    # pyspark converts those that it knows, and keeps the JVM's beside it; py4j's own has it under another name.
    found = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    for _ in range(_DEPTH_MAX):
        if found is None:
            return
        yield found
        found = found.getCause()


def is_io_error(found: Any) -> bool:
    kind = found.getClass()
    while kind is not None and kind.getName() != "java.io.IOException":
        kind = kind.getSuperclass()
    return kind is not None


def _unsaid(error: BaseException) -> str:
    """What the JVM raised at first, where it has no words, so that Spark's own text ends where they would stand; and
    that the source process died, which is all that such a text can mean.
    """
    try:
        last = next(reversed(list(thrown(error))), None)
        if last is None:
            return ""
        frames = last.getStackTrace()
        if is_io_error(last) and any(frame.getClassName() == _SOURCE_RUNNER for frame in frames):
            return f"{last.getClass().getName()}: {SOURCE_DIED}"
        return f"{last.getClass().getName()}: at {frames[0]}" if _UNSAID.search(str(error)) else ""
    except Exception:  # noqa: BLE001 - border: a JVM that dies while it is asked
        return ""


def _raised(frames: str) -> str:
    """What stands behind the frames, which are indented."""
    lines = frames.splitlines(keepends=True)
    at = next((at for at, line in enumerate(lines) if line.strip() and not line[0].isspace()), len(lines))
    return "".join(lines[at:])


def _shown(text: str) -> str:
    said = _BEHIND.split(_CALLED.sub("", text), maxsplit=1)[0]
    line = " ".join(_MODULES.sub("", said).split())
    return line if len(line) <= MOST else f"{line[: MOST - 3]}..."


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
