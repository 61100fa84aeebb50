"""The real cause of an error, in one line: Spark wraps an error of Python in several of its own, and adds its plan."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

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
