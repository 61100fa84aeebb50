"""`parse` and `Expression`: an SQL92 filter as RocketMQ means it, checked before anything is subscribed with it.

Differences from a stock broker, all of them refusals: text behind a complete expression (RocketMQ ignores it, so that
`a LIKE 'x%'` never matches and `a = 007` means `a = 0`; `is_strict=False` does the same), nesting beyond 32 levels, and
more than 4 KiB. Messages come and go unknown here: there are only their properties.
"""

from __future__ import annotations

from framework.errors import Sql92Error
from framework.model.sql92.conditions import Properties, Term
from framework.model.sql92.parser import ConditionParser

LENGTH_MAX = 4096
"""Bytes of an expression in UTF-8."""


class Expression:
    """A condition on a message's properties."""

    __slots__ = ("_run", "nodes", "searches", "text")

    def __init__(self, text: str, condition: Term) -> None:
        self.text = text
        self._run = condition.run
        self.nodes = condition.nodes
        """How many comparisons, names and literals are walked for a message, at most."""
        self.searches = condition.searches
        """How many of them look through a whole text."""

    def matches(self, properties: Properties) -> bool:
        """Whether the message is delivered: only when the whole expression is TRUE."""
        return self.evaluate(properties) is True

    def evaluate(self, properties: Properties) -> bool | None:
        """TRUE, FALSE or unknown; unknown too where Java throws, since no message is delivered then either."""
        try:
            value = self._run(properties)
        except ValueError:
            return None
        assert value is None or isinstance(value, bool), f"{self.text!r} is no condition"
        return value

    def __repr__(self) -> str:
        return f"Expression({self.text!r})"


def parse(text: str, *, is_strict: bool = True) -> Expression:
    """The expression; raises Sql92Error, which says where and what to write instead.

    Without `is_strict`, what stands behind a complete expression is ignored, as a stock broker ignores it.
    """
    # By characters first: a text of a gigabyte is not encoded only to be refused.
    if len(text) > LENGTH_MAX or len(text.encode("utf-8", "surrogatepass")) > LENGTH_MAX:
        raise Sql92Error(f"longer than the limit of {LENGTH_MAX} bytes", 0, "filter by fewer values, or by tags")
    return Expression(text, ConditionParser(text, is_strict=is_strict).condition())
