"""Harmless: what a line quotes of others moves no cursor, colours nothing and begins no line that looks like ours.

For the console alone; JSON escapes by itself. Texts of producers, brokers and exceptions end here, whoever logs them.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from textwrap import indent
from typing import Any

_LEFT_AS_THEY_ARE = "\n\t"
_QUOTED = frozenset(" \t=\r\n\"'")
"""The renderer quotes a field that has one of these, and escapes what cannot be printed in it."""


def harmless(logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """The last before the renderer, whose own colours come after it."""
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
