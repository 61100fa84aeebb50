"""The mistakes: each operator reads a module's source and names every place at which it could be wrong in its way.

A mutant is a replacement of some bytes of one file, so that it shows as a line of a diff and moves no other line. What
is not behaviour is left alone: log calls, docstrings, `__repr__`, annotations, `TYPE_CHECKING` blocks, the texts of
errors, assertions, and the marks of the simulation.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from tests.mutation.nodes import (
    Function,
    bound_before,
    count_awaits,
    depend,
    is_docstring,
    is_log,
    is_mark,
    is_number,
    is_step,
    is_unseen,
    last_line,
    last_name,
    mentions_marks,
)

LEFT_OUT = "statement left out"
FLUSH = "flush dropped"
GIVEN_BACK = "counter not given back"
NEGATED = "condition negated"
BOUNDARY = "boundary moved"
AND_OR = "and for or"
AWAIT = "await dropped"
AWAITS = "awaits swapped"
STEPS = "a step before an await, after it"
NEIGHBOUR = "wrong neighbour"
EARLY = "early return"
CONSTANT = "constant off by one"
FLAG = "flag turned"
MIN_MAX = "min for max"
PLUS_MINUS = "plus for minus"
LOOP = "break for continue"
OPERATORS = (
    LEFT_OUT, FLUSH, GIVEN_BACK, NEGATED, BOUNDARY, AND_OR, AWAIT, AWAITS, STEPS, NEIGHBOUR, EARLY, CONSTANT, FLAG,
    MIN_MAX, PLUS_MINUS, LOOP,
)  # fmt: skip
FLUSHES = frozenset({"flush", "fsync", "sync", "commit", "save", "write", "drain", "confirm", "checkpoint"})
GIVES_BACK = frozenset(
    {
        "release",
        "give_back",
        "discard",
        "remove",
        "pop",
        "popleft",
        "clear",
        "cancel",
        "close",
        "forget",
        "stop",
        "free",
    }
)
CONSTRUCTORS = frozenset({"__init__", "__post_init__"})
"""An attribute that they do not set is an error at its first use."""
UNSEEN = frozenset({"__repr__", "__str__", "__format__"})
NOT_SWAPPED = frozenset(
    {"isinstance", "issubclass", "cast", "partial", "getattr", "setattr", "hasattr", "super", "range"}
)
"""Calls whose first argument is of another kind than the second: a swap breaks them at once, and mypy says so."""
SMALL = 16
"""Above it a constant is a limit or a duration, where one more is no mistake; on the wire each number is a code."""
BOUNDARIES: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
}
OPPOSITES: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One mistake in one file."""

    file: str
    """Below the repository's folder."""
    function: str
    """`Class.method`, as Python qualifies it; empty where a module or a class is put together."""
    operator: str
    line: int
    lines: tuple[int, int]
    """The first and last line that must run for it to matter; (0, 0): it matters from the import on."""
    begin: int
    end: int
    new: bytes
    """In place of the bytes of the file from begin to end."""
    before: str
    after: str
    """The first line that differs, without and with the mistake."""
    nth: int = 1
    """Of those that read alike in one function."""

    @property
    def key(self) -> str:
        """The same wherever its lines move to."""
        again = f" #{self.nth}" if self.nth > 1 else ""
        return f"{self.file}::{self.function}: {self.operator}: {self.before} -> {self.after}{again}"

    def put_into(self, source: bytes) -> bytes:
        return source[: self.begin] + self.new + source[self.end :]


def mutants_of(file: str, source: bytes) -> list[Mutant]:
    """Every mistake that the operators know in this file, in its order. A few of them may not compile."""
    found: dict[tuple[int, int, bytes], Mutant] = {}
    alike: Counter[str] = Counter()
    for edit in _Finder(source, any_constant=file.startswith("framework/wire/")).found():
        where = (edit.begin, edit.end, edit.new)
        if where in found or source[edit.begin : edit.end] == edit.new:
            continue
        mutant = Mutant(
            file, edit.function, edit.operator, edit.line, edit.lines, *where, *_first_difference(source, edit)
        )
        alike[mutant.key] += 1
        found[where] = replace(mutant, nth=alike[mutant.key])
    return list(found.values())


def compiles(source: bytes) -> bool:
    try:
        compile(source, "mutant", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return True


@dataclass(frozen=True, slots=True)
class _Edit:
    operator: str
    function: str
    line: int
    lines: tuple[int, int]
    begin: int
    end: int
    new: bytes


def _first_difference(source: bytes, edit: _Edit) -> tuple[str, str]:
    """The first line that differs, without its comment, from the lines that the edit touches."""
    begin = source.rfind(b"\n", 0, edit.begin) + 1
    end = source.find(b"\n", edit.end)
    end = len(source) if end < 0 else end
    old = source[begin:end].decode()
    new = (source[begin : edit.begin] + edit.new + source[edit.end : end]).decode()
    for before, after in zip(old.split("\n"), new.split("\n"), strict=False):
        if before != after:
            return before.strip().partition("  # ")[0], after.strip().partition("  # ")[0]
    return "", ""


class _Finder:
    """Walks one module. It knows which function it is in, and where lines begin in the bytes."""

    def __init__(self, source: bytes, *, any_constant: bool) -> None:
        self._source = source
        self._any_constant = any_constant
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._names: list[str] = []
        self._functions: list[Function] = []

    def found(self) -> Iterator[_Edit]:
        yield from self._body(ast.parse(self._source).body)

    # --- statements ---

    def _body(self, body: Sequence[ast.stmt]) -> Iterator[_Edit]:
        shown = [each for each in body if not is_unseen(each)]
        for statement in shown:
            yield from self._statement(statement)
        for first, second in pairwise(body):
            yield from self._swapped(first, second)

    def _statement(self, node: ast.stmt) -> Iterator[_Edit]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from self._function(node)
        elif isinstance(node, ast.ClassDef):
            self._names.append(node.name)
            yield from self._body(node.body)
            self._names.pop()
        elif isinstance(node, ast.If | ast.While):
            yield from self._condition(node.test)
            yield from self._expression(node.test)
            yield from self._body(node.body)
            yield from self._body(node.orelse)
        elif isinstance(node, ast.For | ast.AsyncFor):
            yield from self._expression(node.iter)
            yield from self._body(node.body)
            yield from self._body(node.orelse)
        elif isinstance(node, ast.With | ast.AsyncWith):
            for item in node.items:
                yield from self._expression(item.context_expr)
            yield from self._body(node.body)
        elif isinstance(node, ast.Try):
            for body in (node.body, *(handler.body for handler in node.handlers), node.orelse, node.finalbody):
                yield from self._body(body)
        elif isinstance(node, ast.Match):
            yield from self._expression(node.subject)
            for case in node.cases:
                if case.guard is not None:
                    yield from self._condition(case.guard)
                    yield from self._expression(case.guard)
                yield from self._body(case.body)
        else:
            yield from self._simple(node)

    def _function(self, node: Function) -> Iterator[_Edit]:
        if node.name in UNSEEN or any(
            last_name(each) in {"overload", "abstractmethod"} for each in node.decorator_list
        ):
            return
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                yield from self._expression(default)
        self._names.append(node.name)
        self._functions.append(node)
        yield from self._body(node.body)
        if isinstance(node.returns, ast.Constant) and node.returns.value is None and node.name not in CONSTRUCTORS:
            for statement in node.body[2 if is_docstring(node.body[0]) else 1 :]:
                if not is_unseen(statement):
                    yield self._early(statement)
        self._functions.pop()
        self._names.pop()

    def _early(self, statement: ast.stmt) -> _Edit:
        begin = self._at(statement.lineno, statement.col_offset)
        new = b"return\n" + b" " * statement.col_offset
        return self._edit(EARLY, statement, begin, begin, new, last=statement.lineno)

    def _simple(self, node: ast.stmt) -> Iterator[_Edit]:
        left_out = self._left_out(node)
        if left_out is not None and self._functions:
            begin, end = self._span(node)
            yield self._edit(left_out, node, begin, end, b"pass" + b"\n" * (last_line(node) - node.lineno))
        match node:
            case ast.Break():
                yield self._whole(LOOP, node, b"continue")
            case ast.Continue():
                yield self._whole(LOOP, node, b"break")
            case (
                ast.Return(value=ast.Constant(value=bool(value)) as constant)
                | ast.Assign(value=ast.Constant(value=bool(value)) as constant)
            ):
                yield self._whole(FLAG, constant, str(not value).encode())
            case ast.Expr(value=ast.Await(value=ast.Call() as call)):
                begin, _ = self._span(node)
                yield self._edit(AWAIT, node, begin, self._span(call)[0], b"")
            case _:
                pass
        is_alias = isinstance(node, ast.AnnAssign) and last_name(node.annotation) == "TypeAlias"
        right: ast.expr | None = None if is_alias else getattr(node, "value", None)
        if right is not None:
            yield from self._expression(right)

    def _left_out(self, node: ast.stmt) -> str | None:
        """As which mistake this statement may be missing; None: it may not, or all would see it at once."""
        match node:
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr=name))) if name in GIVES_BACK:
                return GIVEN_BACK
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr=name))) if name.lstrip("_") in FLUSHES:
                return FLUSH
            case ast.Expr(value=ast.Call()) | ast.Raise():
                return LEFT_OUT
            case ast.Delete() | ast.AugAssign(op=ast.Sub()):
                return GIVEN_BACK
            case ast.AugAssign():
                return LEFT_OUT
            case ast.Assign(targets=targets):
                return LEFT_OUT if all(map(self._is_kept_without, targets)) else None
            case _:
                return None

    def _is_kept_without(self, target: ast.expr) -> bool:
        """Whether something of this name is there without the assignment. A name that is not would break at once."""
        if isinstance(target, ast.Tuple):
            return all(map(self._is_kept_without, target.elts))
        if isinstance(target, ast.Name):
            return bool(self._functions) and target.id in bound_before(self._functions[-1], target)
        return bool(self._functions) and self._functions[-1].name not in CONSTRUCTORS

    def _swapped(self, first: ast.stmt, second: ast.stmt) -> Iterator[_Edit]:
        if not (self._functions and is_step(first) and is_step(second)) or depend(first, second):
            return
        awaits = count_awaits(first) + count_awaits(second)
        if awaits:
            begin, end = self._span(first)
            behind, last = self._span(second)
            between = self._source[end:behind]
            new = self._source[behind:last] + between + self._source[begin:end]
            operator = AWAITS if awaits == 2 else STEPS
            yield self._edit(operator, first, begin, last, new, last=last_line(second))

    # --- expressions ---

    def _condition(self, node: ast.expr) -> Iterator[_Edit]:
        """It and each of its parts, the other way round."""
        if not mentions_marks(node):
            begin, end = self._span(node)
            text = self._source[begin:end]
            plain = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
            yield self._edit(NEGATED, node, begin, end, text[3:].lstrip() if plain else b"not (" + text + b")")
        if isinstance(node, ast.BoolOp):
            for value in node.values:
                yield from self._condition(value)

    def _expression(self, node: ast.expr) -> Iterator[_Edit]:
        if isinstance(node, ast.JoinedStr):
            return
        if isinstance(node, ast.Call) and (is_log(node) or is_mark(node)):
            return
        match node:
            case ast.BoolOp():
                yield from self._bool_op(node)
            case ast.Compare():
                yield from self._compare(node)
            case ast.IfExp():
                yield from self._condition(node.test)
            case ast.Constant(value=int(value)) if not isinstance(value, bool):
                if abs(value) <= SMALL or self._any_constant:
                    yield self._whole(CONSTANT, node, str(value + 1).encode())
            case ast.BinOp(op=ast.Sub()):
                yield from self._between(PLUS_MINUS, node.left, node.right, "-", "+")
            case ast.BinOp(op=ast.Add()) if is_number(node.left) or is_number(node.right):
                yield from self._between(PLUS_MINUS, node.left, node.right, "+", "-")
            case ast.Call():
                yield from self._call(node)
            case _:
                pass
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.comprehension):
                for test in child.ifs:
                    yield from self._condition(test)
                    yield from self._expression(test)
                yield from self._expression(child.iter)
            elif isinstance(child, ast.keyword):
                yield from self._expression(child.value)
            elif isinstance(child, ast.arguments):
                continue
            elif isinstance(child, ast.expr):
                yield from self._expression(child)

    def _bool_op(self, node: ast.BoolOp) -> Iterator[_Edit]:
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in pairwise(node.values):
            yield from self._between(AND_OR, left, right, old, new)

    def _compare(self, node: ast.Compare) -> Iterator[_Edit]:
        for left, op, right in zip((node.left, *node.comparators), node.ops, node.comparators, strict=False):
            if type(op) in BOUNDARIES:
                yield from self._between(BOUNDARY, left, right, *BOUNDARIES[type(op)])
            else:
                yield from self._between(NEGATED, left, right, *OPPOSITES[type(op)])

    def _call(self, node: ast.Call) -> Iterator[_Edit]:
        name = last_name(node.func)
        if name in {"min", "max"} and isinstance(node.func, ast.Name):
            yield self._whole(MIN_MAX, node.func, b"max" if name == "min" else b"min")
        elif name not in NOT_SWAPPED:
            for left, right in pairwise(node.args):
                yield from self._neighbours(left, right)
            values = [each.value for each in node.keywords if each.arg is not None]
            for left, right in pairwise(values):
                yield from self._neighbours(left, right)

    def _neighbours(self, left: ast.expr, right: ast.expr) -> Iterator[_Edit]:
        if not all(isinstance(each, ast.Name | ast.Attribute) for each in (left, right)):
            return
        (begin, end), (behind, last) = self._span(left), self._span(right)
        new = self._source[behind:last] + self._source[end:behind] + self._source[begin:end]
        yield self._edit(NEIGHBOUR, left, begin, last, new, last=last_line(right))

    def _between(self, operator: str, left: ast.expr, right: ast.expr, old: str, new: str) -> Iterator[_Edit]:
        """The one operator sign between two operands; a line with a comment there is left alone."""
        if mentions_marks(left) or mentions_marks(right):
            return
        begin, end = self._span(left)[1], self._span(right)[0]
        gap = self._source[begin:end].decode()
        sign = re.sub(r"\s+", r"\\s+", re.escape(old).replace("\\ ", " "))
        hits = list(re.finditer(rf"\b{sign}\b" if old[0].isalpha() else sign, gap))
        if len(hits) == 1 and "#" not in gap:
            at = hits[0]
            yield self._edit(operator, left, begin + at.start(), begin + at.end(), new.encode(), last=last_line(right))

    # --- places ---

    def _at(self, line: int, column: int) -> int:
        return self._starts[line - 1] + column

    def _span(self, node: ast.stmt | ast.expr) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._at(node.lineno, node.col_offset), self._at(node.end_lineno, node.end_col_offset)

    def _whole(self, operator: str, node: ast.stmt | ast.expr, new: bytes) -> _Edit:
        return self._edit(operator, node, *self._span(node), new)

    def _edit(
        self, operator: str, node: ast.stmt | ast.expr, begin: int, end: int, new: bytes, *, last: int = 0
    ) -> _Edit:
        lines = (node.lineno, last or last_line(node)) if self._functions else (0, 0)
        return _Edit(operator, ".".join(self._names), node.lineno, lines, begin, end, new)
