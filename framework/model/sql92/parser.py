"""`parse`: tokens -> the condition they spell, by RocketMQ's grammar and with its refusals.

Precedence from low to high: OR; AND; `=` `<>` IS; `<` `<=` `>` `>=` BETWEEN IN CONTAINS STARTSWITH ENDSWITH; unary `+`,
`-`, NOT. Differences from a stock broker, all of them refusals: text behind a complete expression (RocketMQ ignores it,
so that `a LIKE 'x%'` never matches and `a = 007` means `a = 0`; `is_strict=False` does the same), nesting beyond 32
levels, and more than 4 KiB.
"""

from __future__ import annotations

from collections.abc import Callable

from framework.errors import Sql92Error, shorten
from framework.model.sql92 import conditions
from framework.model.sql92.conditions import Properties, Shape, Term
from framework.model.sql92.conversion import INTEGER_MAX, LONG_MAX, Long, order
from framework.model.sql92.lexer import Lexer, Token

DEPTH_MAX = 32

_ORDERINGS: dict[str, Callable[[int], bool]] = {
    ">": lambda order: order > 0,
    ">=": lambda order: order >= 0,
    "<": lambda order: order < 0,
    "<=": lambda order: order <= 0,
}
_SEARCHES: dict[str, Callable[[str, str], bool]] = {
    "CONTAINS": conditions.contains,
    "STARTSWITH": str.startswith,
    "ENDSWITH": str.endswith,
}
_NEGATABLE = ("BETWEEN", "IN", *_SEARCHES)
_NOT_FIRST = "elsewhere NOT stands before a condition, as in NOT (a = 1)"


class ConditionParser:
    """One text's way through the grammar. `condition()` is called once."""

    def __init__(self, text: str, *, is_strict: bool) -> None:
        self._lexer = Lexer(text)
        self._is_strict = is_strict
        self._ahead: list[Token] = []
        self._nested = 0

    def condition(self) -> Term:
        start = self._peek()
        if start.kind == "end":
            raise Sql92Error("there is no expression", start.at, "write a condition such as a > 5")
        node = self._as_condition(self._either(), start)
        behind = self._peek()
        if self._is_strict and behind.kind != "end":
            raise Sql92Error(f"{_shown(behind)} does not belong to the expression before it", behind.at, _hint(behind))
        return node

    def _either(self) -> Term:
        return self._row("OR", self._both, conditions.any_of)

    def _both(self) -> Term:
        return self._row("AND", self._equality, conditions.all_of)

    def _row(self, word: str, part: Callable[[], Term], joined: Callable[[list[Term]], Term]) -> Term:
        """Parts with a word between them as one node, so that a long row is not a deep tree."""
        start = self._peek()
        first = part()
        if self._peek().kind != word:
            return first
        parts = [self._as_condition(first, start)]
        while self._peek().kind == word:
            self._take()
            start = self._peek()
            parts.append(self._as_condition(part(), start))
        return self._limited(joined(parts), start)

    def _equality(self) -> Term:
        start = self._peek()
        left = self._comparison()
        while (token := self._peek()).kind in {"=", "<>", "IS"}:
            self._take()
            if token.kind == "IS":
                is_not = self._peek().kind == "NOT"
                if is_not:
                    self._take()
                self._expect("NULL", "write IS NULL or IS NOT NULL")
                left = conditions.is_null(left)
                left = conditions.inverse(left) if is_not else left
            else:
                other = self._peek()
                right = self._comparison()
                left = conditions.equal(*self._comparable(left, start, right, other))
                left = conditions.inverse(left) if token.kind == "<>" else left
            left = self._limited(left, token)
        return left

    def _comparable(self, left: Term, start: Token, right: Term, other: Token) -> tuple[Term, Term]:
        for node, token in ((left, start), (right, other)):
            if node.is_literal and node.literal is None:
                raise Sql92Error("nothing is equal to NULL", token.at, "write IS NULL or IS NOT NULL")
        if left.shape is Shape.TRUTH and right.shape is Shape.LITERAL:
            raise Sql92Error(f"{start.text} is never equal to {_shown(other)}", start.at, "compare a property with it")
        return left, right

    def _comparison(self) -> Term:
        start = self._peek()
        left = self._unary()
        while True:
            token = self._peek()
            is_not = token.kind == "NOT"
            kind = self._peek(1).kind if is_not else token.kind
            if is_not and kind not in _NEGATABLE:
                raise Sql92Error(f"expected one of {', '.join(_NEGATABLE)} behind NOT", self._peek(1).at, _NOT_FIRST)
            if kind not in _NEGATABLE and kind not in _ORDERINGS:
                return left
            for _ in range(1 + is_not):
                self._take()
            if kind in _ORDERINGS:
                other = self._peek()
                right = self._unary()
                left = conditions.ordered(self._orderable(left, start), self._orderable(right, other), _ORDERINGS[kind])
            elif kind in _SEARCHES:
                left = conditions.found(left, self._text(kind), _SEARCHES[kind], wanted=not is_not)
            elif kind == "IN":
                left = self._list(left, start, wanted=not is_not)
            else:
                left = self._range(left, start, is_not=is_not)
            left = self._limited(left, token)

    def _orderable(self, node: Term, token: Token) -> Term:
        if node.is_condition or isinstance(node.literal, str):
            what = f"the text {_shown(token)}" if isinstance(node.literal, str) else "a condition"
            remedy = "only numbers and properties have an order; compare texts by = <> IN CONTAINS STARTSWITH ENDSWITH"
            raise Sql92Error(f"{what} cannot be greater or less than anything", token.at, remedy)
        return node

    def _range(self, left: Term, start: Token, *, is_not: bool) -> Term:
        first = self._peek()
        low = self._unary()
        self._expect("AND", "write BETWEEN 1 AND 5")
        second = self._peek()
        high = self._unary()
        self._orderable(left, start)
        self._orderable(low, first)
        self._orderable(high, second)
        if not is_not and low.literal is not None and high.literal is not None and order(low.literal, high.literal) > 0:
            reason = f"nothing is between {first.text} and {second.text}"
            raise Sql92Error(reason, first.at, "write the lower one first")
        return conditions.between(left, low, high, wanted=not is_not)

    def _list(self, left: Term, start: Token, *, wanted: bool) -> Term:
        self._expect("(", "write IN ('a', 'b')")
        texts = [self._text("IN (")]
        while self._peek().kind == ",":
            self._take()
            texts.append(self._text(","))
        self._expect(")", "close the list of IN")
        if left.shape is not Shape.PROPERTY:
            raise Sql92Error("only a property can be IN a list", start.at, "write name IN ('a', 'b')")
        return conditions.one_of(left, texts, wanted=wanted)

    def _unary(self) -> Term:
        token = self._peek()
        if token.kind in {"+", "-", "NOT"}:
            self._take()
            self._enter(token)
            operand = self._peek()
            inner = self._unary()
            self._nested -= 1
            if token.kind == "+":
                return inner
            made = conditions.negated if token.kind == "-" else conditions.inverse
            return self._limited(made(inner if token.kind == "-" else self._as_condition(inner, operand)), token)
        return self._primary()

    def _primary(self) -> Term:
        token = self._take()
        match token.kind:
            case "text":
                return conditions.literal(token.text)
            case "whole":
                return _whole(token)
            case "decimal":
                return _decimal(token)
            case "TRUE" | "FALSE":
                return conditions.truth(token.kind == "TRUE")
            case "NULL":
                return conditions.truth(None)
            case "name":
                return conditions.property_of(token.text)
            case "(":
                self._enter(token)
                inner = self._either()
                self._nested -= 1
                self._expect(")", f"close the one at character {token.at + 1}")
                return inner
        raise Sql92Error(f"expected a property, a number or a text, found {_shown(token)}", token.at, _hint(token))

    def _as_condition(self, node: Term, token: Token) -> Term:
        if node.is_condition:
            return node
        if node.shape is Shape.PROPERTY:
            return self._limited(conditions.cast(node), token)
        remedy = "compare it with something, such as a = 5"
        raise Sql92Error(f"{_shown(token)} is {node.shape.value}, where a condition is needed", token.at, remedy)

    def _text(self, behind: str) -> str:
        return self._expect("text", f"a text in single quotes stands behind {behind}").text

    def _expect(self, kind: str, remedy: str) -> Token:
        token = self._take()
        if token.kind != kind:
            wanted = "a text" if kind == "text" else kind
            raise Sql92Error(f"expected {wanted}, found {_shown(token)}", token.at, remedy)
        return token

    def _peek(self, distance: int = 0) -> Token:
        while len(self._ahead) <= distance:
            self._ahead.append(self._lexer.next())
        return self._ahead[distance]

    def _take(self) -> Token:
        token = self._peek()
        del self._ahead[0]
        return token

    def _enter(self, token: Token) -> None:
        """Parsing nests as the text does, and each level costs stack."""
        self._nested += 1
        if self._nested > DEPTH_MAX:
            raise _too_deep(token)

    def _limited(self, node: Term, token: Token) -> Term:
        """Evaluation nests as the tree does, and rows such as a = b = c make trees without a parenthesis."""
        if node.depth > DEPTH_MAX:
            raise _too_deep(token)
        return node


def _too_deep(token: Token) -> Sql92Error:
    return Sql92Error(f"nested deeper than the limit of {DEPTH_MAX}", token.at, "use AND, OR and IN side by side")


def _whole(token: Token) -> Term:
    digits = token.text.rstrip("lL")
    if len(digits) > len(str(LONG_MAX)) or int(digits) > LONG_MAX:
        raise Sql92Error(f"{shorten(token.text)} is larger than {LONG_MAX}", token.at, "write it with a decimal point")
    value = int(digits)
    return conditions.literal(value if value <= INTEGER_MAX else Long(value))


def _decimal(token: Token) -> Term:
    value = float(token.text)
    if value == 0 or value == float("inf"):  # RocketMQ takes the smallest double above 0 for the least of all
        side = "is no number above 0" if value == 0 else "is larger than any double"
        remedy = "write 0 without a decimal point" if value == 0 else "write a smaller one"
        raise Sql92Error(f"{shorten(token.text)} {side}", token.at, remedy)
    return conditions.literal(value)


def _shown(token: Token) -> str:
    return "the end" if token.kind == "end" else shorten(token.text)


def _hint(token: Token) -> str | None:
    """A way out for what other dialects have."""
    if token.kind == "name":
        word = token.text.upper()
        if word in {"LIKE", "REGEXP", "RLIKE", "ILIKE"}:
            return "there is no pattern matching; write CONTAINS, STARTSWITH or ENDSWITH"
        return "names and texts are joined by operators, and texts stand in single quotes"
    if token.kind == "=":
        return "write = once, and <= or >= without a blank"
    if token.kind == "-":
        return "there is no arithmetic in a filter, and a comment that begins with -- ends with a line"
    if token.kind == "+":
        return "there is no arithmetic in a filter"
    if token.kind == "whole":
        return "a whole number has no leading zero"
    return None


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
