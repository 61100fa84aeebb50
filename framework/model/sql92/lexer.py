"""Text -> tokens, one when it is asked for, as RocketMQ's lexer cuts them: always the longest that fits.

Knows no grammar. What is no token is an error only when it is reached: a stock broker does not read on behind an
expression that is complete.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from framework.errors import Sql92Error

KEYWORDS = frozenset(
    ("NOT", "AND", "OR", "BETWEEN", "IN", "TRUE", "FALSE", "NULL", "IS", "CONTAINS", "STARTSWITH", "ENDSWITH")
)

# A line comment counts only when a line ends it.
_SKIPPED = re.compile(r"(?:[ \t\n\r\f]+|--[^\n\r]*[\n\r]|/\*(?:[^*]|\*(?!/))*\*/)")
_DECIMAL = re.compile(r"(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+")
_WHOLE = re.compile(r"0|[1-9][0-9]*[lL]?")
_NAME = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_SYMBOL = re.compile(r"<>|<=|>=|[=<>(),+-]")

_REMEDIES = {
    "!": "write <> for 'not equal'",
    '"': "texts stand in single quotes",
    "\u2019": "texts stand in straight single quotes",
    ".": "a property's name has letters, digits, _ and $ only",
    "*": "there is no arithmetic in a filter",
    "/": "there is no arithmetic in a filter, and a comment ends with */",
    "%": "there is no arithmetic in a filter",
    "&": "write AND",
    "|": "write OR",
}


class Token(NamedTuple):
    """`kind` is a keyword, a symbol, or one of: name, text, whole, decimal, end."""

    kind: str
    text: str
    """As it was written; of a text, what it says."""
    at: int
    """Characters before it."""


class Lexer:
    """The tokens of one text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def next(self) -> Token:
        """The next token, `end` at the end; raises Sql92Error at what is none."""
        text = self._text
        while (skipped := _SKIPPED.match(text, self._at)) is not None:
            self._at = skipped.end()
        at = self._at
        if at == len(text):
            return Token("end", "", at)
        if text[at] == "'":
            return self._quoted(at)
        for kind, pattern in (("decimal", _DECIMAL), ("whole", _WHOLE), ("name", _NAME), ("", _SYMBOL)):
            match = pattern.match(text, at)
            if match is not None:
                self._at = match.end()
                word = match[0]
                keyword = word.upper() if kind == "name" else word
                return Token(keyword if keyword in KEYWORDS else kind or word, word, at)
        raise Sql92Error(f"{text[at]!r} has no meaning here", at, _REMEDIES.get(text[at]))

    def _quoted(self, at: int) -> Token:
        """A text; two quotes in it stand for one."""
        text, end, closed = self._text, at + 1, -1
        while (end := text.find("'", end)) >= 0:
            closed = end
            if text[end + 1 : end + 2] != "'":
                break
            end += 2
        if closed < 0:
            raise Sql92Error("a text begins here and never ends", at, "close it with a single quote")
        # Without another quote to end it, the text has ended at the first of the last two: the longest that fits.
        self._at = closed + 1
        return Token("text", text[at + 1 : closed].replace("''", "'"), at)
