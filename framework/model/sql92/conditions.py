"""What an expression is made of: one function a construct, each answering a `Term` that can be evaluated.

The rules are RocketMQ's (its `filter` module), three-valued with None for unknown; which constructs may stand where is
the parser's affair. Evaluation raises ValueError where Java throws, and walks each node once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import TypeAlias

from framework.model.sql92.conversion import Long, Operand, Value, order, to_double

Properties: TypeAlias = Mapping[str, str]
Run: TypeAlias = Callable[[Properties], Value]


class Shape(Enum):
    """What a construct is good for: Java asks for classes, and so do its errors."""

    LITERAL = "a literal"  # a text or a number
    TRUTH = "a truth value"  # TRUE, FALSE, NULL: a literal and a condition
    PROPERTY = "a property"
    CONDITION = "a condition"
    NEGATED = "a negated value"


@dataclass(frozen=True, slots=True)
class Term:
    """Something that has a value for a message."""

    shape: Shape
    run: Run
    depth: int = 1
    literal: Value = None
    """The value of LITERAL and TRUTH, which is known before any message."""
    nodes: int = 1
    """How many are walked to evaluate it, at most."""
    searches: int = 0
    """How many of them look through a whole text."""

    @property
    def is_literal(self) -> bool:
        return self.shape in {Shape.LITERAL, Shape.TRUTH}

    @property
    def is_condition(self) -> bool:
        return self.shape in {Shape.CONDITION, Shape.TRUTH}


def literal(value: Operand) -> Term:
    return Term(Shape.LITERAL, lambda _: value, literal=value)


def truth(value: bool | None) -> Term:
    return Term(Shape.TRUTH, lambda _: value, literal=value)


def property_of(name: str) -> Term:
    return Term(Shape.PROPERTY, lambda properties: properties.get(name))


def negated(inner: Term) -> Term:
    """`-x`: unknown for everything but a number, and texts are not read as numbers here."""

    def run(properties: Properties) -> Value:
        value = inner.run(properties)
        if value is None or isinstance(value, str | bool):
            return None
        return Long(-value) if isinstance(value, Long) else -value

    return _made(Shape.NEGATED, run, inner)


def cast(inner: Term) -> Term:
    """A bare property as a condition: its text is no truth value, so what is there is FALSE."""
    return _condition(lambda properties: None if inner.run(properties) is None else False, inner)


def inverse(inner: Term) -> Term:
    """NOT."""

    def run(properties: Properties) -> Value:
        value = inner.run(properties)
        return None if value is None else not value

    return _condition(run, inner)


def all_of(parts: Sequence[Term]) -> Term:
    """AND of a whole row: FALSE decides, then unknown. From the left, and no further than needed."""
    runs = tuple(part.run for part in parts)

    def run(properties: Properties) -> Value:
        result: Value = True
        for each in runs:
            value = each(properties)
            if value is False:
                return False
            if value is None:
                result = None
        return result

    return _condition(run, *parts)


def any_of(parts: Sequence[Term]) -> Term:
    """OR of a whole row: TRUE decides, then unknown."""
    runs = tuple(part.run for part in parts)

    def run(properties: Properties) -> Value:
        result: Value = False
        for each in runs:
            value = each(properties)
            if value is True:
                return True
            if value is None:
                result = None
        return result

    return _condition(run, *parts)


def equal(left: Term, right: Term) -> Term:
    """`=`, and IS NULL with NULL on the right: unknown without a left value, FALSE without a right one."""
    left_of, right_of = left.run, right.run

    def run(properties: Properties) -> Value:
        one, other = left_of(properties), right_of(properties)
        if one is None:
            return True if other is None else None
        return other is not None and order(one, other) == 0

    return _condition(run, left, right)


def is_null(inner: Term) -> Term:
    return _condition(lambda properties: inner.run(properties) is None, inner)


def ordered(left: Term, right: Term, holds: Callable[[int], bool]) -> Term:
    """`<`, `<=`, `>`, `>=`; `holds` is given how left stands to right."""
    left_of, right_of = left.run, right.run

    def run(properties: Properties) -> Value:
        one = left_of(properties)
        if one is None:
            return None
        other = right_of(properties)
        return None if other is None else holds(_numeric_order(one, other))

    return _condition(run, left, right)


def between(inner: Term, low: Term, high: Term, *, wanted: bool) -> Term:
    """`x >= low AND x <= high`, or `x < low OR x > high`, with x evaluated once."""

    def run(properties: Properties) -> Value:
        value = inner.run(properties)
        if value is None:
            return None
        least = low.run(properties)
        if least is not None and _numeric_order(value, least) < 0:
            return not wanted
        most = high.run(properties)
        if most is not None and _numeric_order(value, most) > 0:
            return not wanted
        return None if least is None or most is None else wanted

    return _condition(run, inner, low, high)


def one_of(inner: Term, texts: Sequence[str], *, wanted: bool) -> Term:
    """[NOT] IN: unknown without the property, in both forms."""
    known = frozenset(texts)

    def run(properties: Properties) -> Value:
        value = inner.run(properties)
        return None if value is None else (value in known) is wanted

    return _condition(run, inner)


def found(inner: Term, text: str, where: Callable[[str, str], bool], *, wanted: bool) -> Term:
    """[NOT] CONTAINS, STARTSWITH, ENDSWITH: FALSE without a text or without something to look for, in both forms."""

    def run(properties: Properties) -> Value:
        value = inner.run(properties) if text else None
        return isinstance(value, str) and where(value, text) is wanted

    return _condition(run, inner, searches=1)


def contains(value: str, text: str) -> bool:
    """Whether the text is in it. Python's own search may compare each of its characters with each of the value's."""
    if len(value) * len(text) <= _SEARCHED_PLAINLY:
        return text in value
    return _pattern_of(text).search(value) is not None


_SEARCHED_PLAINLY = 16 * 1024


@lru_cache(maxsize=256)
def _pattern_of(text: str) -> re.Pattern[str]:
    return re.compile(re.escape(text))


def _numeric_order(left: Operand, right: Operand) -> int:
    """Two texts are compared as doubles; anything else as everywhere."""
    if isinstance(left, str) and isinstance(right, str):
        return order(to_double(left), to_double(right))
    return order(left, right)


def _condition(run: Run, *inner: Term, searches: int = 0) -> Term:
    return _made(Shape.CONDITION, run, *inner, searches=searches)


def _made(shape: Shape, run: Run, *inner: Term, searches: int = 0) -> Term:
    return Term(
        shape, run, 1 + max(node.depth for node in inner),
        nodes=1 + sum(node.nodes for node in inner), searches=searches + sum(node.searches for node in inner),
    )  # fmt: skip
