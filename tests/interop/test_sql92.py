"""Our SQL92 filter beside RocketMQ's own: the same texts are refused, and the same messages delivered.

Expressions come from a generator: well-formed ones, rows of tokens that look like some, and well-formed ones with a
token lost, doubled or swapped. What RocketMQ ignores behind an expression is ignored here too (`is_strict=False`).
"""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest

from framework.errors import Sql92Error
from framework.model.sql92 import parse
from tests.interop import oracle

pytestmark = pytest.mark.interop

TEXTS = (
    "", " ", "x", "it's", "5", "+5", "-5", " 5", "05", "5.0", "5.", ".5", "5e0", "1e400", "-1e400", "1e-400", "5f",
    "5L", "0x1p3",
    "0x.8P-1d", "0x10", "NaN", "-NaN", "Infinity", "-Infinity", "infinity", "nan", "0", "-0", "0.0", "-0.0",
    "2147483647",
    "2147483648", "-2147483648", "-2147483649", "9223372036854775807", "9223372036854775808", "9007199254740993",
    "1_0", "٥", "５",
    "𝟓", "true", "TRUE", "tRuE", "false", "yes", "null", "10", "6", "a", "ab", "abc", "\u00a05", "\u20035", "\u00005",
    "5\n", "0" * 30 + "5",
)  # fmt: skip
NAMES = ("a", "b", "flag", "_x", "$y", "Between1", "ÄRGER", "TAGS")
LITERALS = (
    "0", "1", "5", "5L", "5l", "0L", "10", "2147483647", "2147483648", "9223372036854775807", "9223372036854775808",
    "007", "1.5", "5.",
    ".5", "5.0", "1e3", "1E-3", "5e", "0.0", "1e400", "1e-400", "9007199254740993.0", "'x'", "''", "'it''s'", "'5'",
    "'true'", "'a'", "'b'",
    "'abc'", "TRUE", "false", "True", "NULL", "null",
)  # fmt: skip
TOKENS = (
    "=", "<>", "<", "<=", ">", ">=", "AND", "or", "NOT", "Between", "IN", "IS", "CONTAINS", "startsWith", "ENDSWITH",
    "(", ")", ",",
    "+", "-", "--", "!", "!=", "==", ".", "'", '"', "/* c */", "/*", "/**/", "-- c\n", "LIKE", "\t", "\f", "\v", "\n",
    ";", "*", "~",
)  # fmt: skip


class Source:
    """Expressions and messages from one seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def expression(self) -> str:
        kind = self._random.random()
        if kind < 0.2:
            return self._spaced([self._token() for _ in range(self._random.randint(0, 7))])
        words = self._condition(3)
        if kind < 0.6:
            return self._spaced(words)
        for _ in range(self._random.randint(1, 2)):
            at = self._random.randrange(len(words) + 1)
            match self._random.randrange(3):
                case 0:
                    del words[at : at + 1]
                case 1:
                    words.insert(at, self._token())
                case _:
                    words[at : at + 1] = [self._token()]
        return self._spaced(words)

    def message(self) -> dict[str, str]:
        return {name: self._random.choice(TEXTS) for name in NAMES if self._random.random() < 0.7}

    def _token(self) -> str:
        return self._random.choice(self._random.choice((NAMES, LITERALS, TOKENS, TOKENS)))

    def _spaced(self, words: list[str]) -> str:
        return "".join(word + self._random.choice((" ", " ", " ", "")) for word in words)

    def _operand(self, depth: int) -> list[str]:
        kind = self._random.random()
        if kind < 0.5 or depth <= 0:
            return [self._random.choice(NAMES[:3])]
        if kind < 0.85:
            return [self._random.choice(LITERALS)]
        if kind < 0.93:
            return [self._random.choice("+-"), *self._operand(depth - 1)]
        return ["(", *self._condition(depth - 1), ")"]

    def _condition(self, depth: int) -> list[str]:
        pick = self._random.choice
        text = pick(("'a'", "'b'", "''", "'5'", "'true'", "'it''s'"))
        not_ = pick(([], ["NOT"]))
        forms = [
            lambda: [*self._operand(depth), pick(("=", "<>")), *self._operand(depth)],
            lambda: [*self._operand(depth), pick(("<", "<=", ">", ">=")), *self._operand(depth)],
            lambda: [*self._operand(depth), *not_, "BETWEEN", *self._operand(0), "AND", *self._operand(depth)],
            lambda: [*self._operand(depth), *not_, "BETWEEN", pick(LITERALS), "AND", pick(LITERALS)],
            lambda: [pick(NAMES), *not_, "IN", "(", text, *([",", "'x'"] * pick((0, 1, 5))), ")"],
            lambda: [*self._operand(depth), *not_, pick(("CONTAINS", "STARTSWITH", "ENDSWITH")), text],
            lambda: [*self._operand(depth), "IS", *not_, "NULL"],
            lambda: [pick(("TRUE", "FALSE", "NULL", *NAMES[:3]))],
            lambda: ["NOT", *self._condition(depth - 1)],
            lambda: ["(", *self._condition(depth - 1), ")"],
            lambda: [*self._condition(depth - 1), pick(("AND", "OR")), *self._condition(depth - 1)],
        ]  # fmt: skip
        return self._random.choice(forms[:8] if depth <= 0 else forms)()


def ours(text: str, messages: list[dict[str, str]]) -> object:
    try:
        expression = parse(text, is_strict=False)
    except Sql92Error:
        return "refused"
    return [verdict(expression.evaluate(message)) for message in messages]


def verdict(value: bool | None) -> str:
    return "undelivered" if value is None else str(value).lower()


def theirs(answer: object) -> object:
    """Java's unknown and Java's exceptions both mean that the message is not delivered."""
    if not isinstance(answer, list):
        return answer
    return ["undelivered" if value in {"unknown", "throws"} else value for value in answer]


def differences(seed: int, count: int) -> list[tuple[str, Mapping[str, str] | None, object, object]]:
    source = Source(seed)
    questions = [
        {"sql": source.expression(), "messages": [{}, *(source.message() for _ in range(12))]} for _ in range(count)
    ]
    found: list[tuple[str, Mapping[str, str] | None, object, object]] = []
    for question, answer in zip(questions, oracle.ask(questions), strict=True):
        text, messages = str(question["sql"]), question["messages"]
        assert isinstance(messages, list)
        expected, actual = theirs(answer), ours(text, messages)
        if isinstance(expected, list) and isinstance(actual, list):
            found += [(text, *row) for row in zip(messages, expected, actual, strict=True) if row[1] != row[2]]
        elif expected != actual:
            found.append((text, None, expected, actual))
    return found


@pytest.mark.parametrize("seed", range(2))
def test_rocketmq_refuses_and_delivers_the_same(seed: int) -> None:
    assert [] == differences(seed, 5_000)[:5]
