"""Failures in log lines: the author's own frames and the error, in six lines with the line itself.

The framework's frames say nothing to who wrote the handler; `--debug`, or `logging.level: debug`, shows all there is.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from types import TracebackType
from typing import Any

import framework

LINES_MAX = 5
"""Beside the line itself."""
TEXT_MAX = 400
_OURS = str(Path(framework.__file__).parent)


def with_short_failure(logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """What `exc_info` becomes where nobody asked for everything."""
    given = event.pop("exc_info", None)
    error = given if isinstance(given, BaseException) else given[1] if isinstance(given, tuple) else None
    if error is None and given:
        error = sys.exc_info()[1]
    if error is not None:
        event["exception"] = "\n".join(lines_of(error))
    return event


def lines_of(error: BaseException) -> list[str]:
    """Where it was raised, outermost first, what it says, and what it came of."""
    last = [_said(error)]
    if (cause := _cause(error)) is not None:
        last.append(f"because of {_said(cause)}")
    last += [f"note: {_one_line(str(note))}" for note in getattr(error, "__notes__", ())[:1]]
    frames = list(_frames(error.__traceback__))
    room = LINES_MAX - len(last)
    if len(frames) > room:  # where the handler stands, and where it ended
        frames = [frames[0], *frames[len(frames) - room + 1 :]]
    return [*frames, *(f"  {line}" for line in last)]


def _frames(trace: TracebackType | None) -> Iterator[str]:
    for frame in traceback.extract_tb(trace):
        if not frame.filename.startswith(_OURS):
            text = f": {_one_line(frame.line)}" if frame.line else ""
            yield f"  {frame.filename}:{frame.lineno} in {frame.name}{text}"


def _cause(error: BaseException) -> BaseException | None:
    if isinstance(error, BaseExceptionGroup):
        first: BaseException = error.exceptions[0]
        return first
    return error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _said(error: BaseException) -> str:
    text = _one_line(str(error))
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _one_line(text: str) -> str:
    joined = " ".join(text.split())
    return joined if len(joined) <= TEXT_MAX else f"{joined[: TEXT_MAX - 3]}..."
