"""Texts of others as a terminal, or a line of JSON, may have them: one place for all that commands print.

Client ids, topics, keys, bodies and the remarks of brokers are chosen by strangers. Nothing in them may move the
cursor, colour anything, turn the text around or begin a line. Lines of the log are escaped as their renderer does it
(`runtime/logs/processors.py`).
"""

from __future__ import annotations

import json


def plain(text: str, keep: str = "") -> str:
    """For lines that people read: a question mark for each sign that cannot be printed, but for those to `keep`."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() or sign in keep else "?" for sign in text)


def escaped(text: str, keep: str = "") -> str:
    """As JSON escapes it, but for signs to `keep`: what programs read is the same value, and people see what it was."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() or sign in keep else json.dumps(sign)[1:-1] for sign in text)
