"""What each line of the log passes through: failures in six lines, the id of its page, and harmless texts of others."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from textwrap import indent
from types import TracebackType
from typing import Any

import framework
from framework.catalogue.pages import ids_of_events

LINES_MAX = 5
"""Beside the line itself."""
TEXT_MAX = 400
_OURS = str(Path(framework.__file__).parent)


def with_short_failure(logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """What `exc_info` becomes where nobody asked for everything: the author's own frames and the error. The framework's
    frames say nothing to who wrote the handler; `--debug`, or `logging.level: debug`, shows all there is.
    """
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


EXPLAINED = frozenset({"warning", "error", "critical"})


def read_ids() -> None:
    """Read them now: the first warning may be that no file can be opened any more."""
    ids_of_events()


def with_id(logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Which page says what a warning or an error means. Looked up by the event's name, so who logs need not know it;
    `EVENT: more` sums up lines of that event.
    """
    if event.get("level") in EXPLAINED:
        number = ids_of_events().get(str(event.get("event")).partition(": ")[0])
        if number is not None:
            event.setdefault("id", number)
    return event


_LEFT_AS_THEY_ARE = "\n\t"
_QUOTED = frozenset(" \t=\r\n\"'")
"""The renderer quotes a field that has one of these, and escapes what cannot be printed in it."""


def harmless(logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """What a line quotes of others moves no cursor, colours nothing and begins no line that looks like ours. For the
    console alone; JSON escapes by itself. The last before the renderer, whose own colours come after it.
    """
    for name, value in event.items():
        if type(value) is not str or value.isprintable():
            continue
        if name == "event":
            event[name] = _escaped(value).replace("\n", "\n  ")
        elif name in {"exception", "stack"}:
            event[name] = _escaped(value) if value.startswith(" ") else indent(_escaped(value), "  ")
        elif _QUOTED.isdisjoint(value):
            event[name] = _escaped(value)
    return event


def _escaped(text: str) -> str:
    return "".join(sign if sign.isprintable() or sign in _LEFT_AS_THEY_ARE else repr(sign)[1:-1] for sign in text)
