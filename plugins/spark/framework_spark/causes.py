"""The real cause of an error, in one line: Spark wraps an error of Python in several of its own, and adds its plan."""

from __future__ import annotations

import re

MOST = 500
_TRACEBACK = "Traceback (most recent call last):\n"
_CAUSED_BY = re.compile(r"^Caused by: (.+)$", re.MULTILINE)
# Where Spark's words go on behind an error's: its state, the query's plan, frames of the JVM.
_BEHIND = re.compile(r"\s+SQLSTATE: |\n=== Streaming Query ===|\n\s*at [\w.$]+\(|\n\n")
_MODULES = re.compile(r"^(?:[A-Za-z_]\w*\.)+(?=[A-Z]\w*(?::|$))")


def cause_of(error: BaseException) -> str:
    """`Type: text`. Of Python's errors in Spark's the innermost, of the JVM's the last cause."""
    text = str(error)
    _, marker, tail = text.rpartition(_TRACEBACK)
    raised = _raised(tail) if marker else ""
    if raised:
        return _shown(raised)
    causes = _CAUSED_BY.findall(text)
    return _shown(causes[-1]) if causes else _shown(f"{type(error).__name__}: {text}")


def _raised(frames: str) -> str:
    """What stands behind the frames, which are indented."""
    lines = frames.splitlines(keepends=True)
    at = next((at for at, line in enumerate(lines) if line.strip() and not line[0].isspace()), len(lines))
    return "".join(lines[at:])


def _shown(text: str) -> str:
    said = _BEHIND.split(text, maxsplit=1)[0]
    line = " ".join(_MODULES.sub("", said).split())
    return line if len(line) <= MOST else f"{line[: MOST - 3]}..."
