"""What a node of a module's tree is: seen or unseen, a log call, a mark, a step that could stand elsewhere. Pure."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TypeAlias

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
LOG_METHODS = frozenset({"debug", "info", "warning", "error", "exception", "critical"})


def last_line(node: ast.stmt | ast.expr) -> int:
    assert node.end_lineno is not None
    return node.end_lineno


def last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Call):
        return last_name(node.func)
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def is_unseen(node: ast.stmt) -> bool:
    match node:
        case ast.Expr(value=ast.Constant()) | ast.Assert() | ast.Import() | ast.ImportFrom() | ast.Pass():
            return True
        case ast.Expr(value=ast.Call() as call) | ast.Expr(value=ast.Await(value=ast.Call() as call)):
            return is_log(call) or is_mark(call)
        case ast.If(test=test):
            return last_name(test) == "TYPE_CHECKING"
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name in {"__all__", "__slots__"}
        case _:
            return False


def is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def is_log(call: ast.Call) -> bool:
    func = call.func
    return (
        isinstance(func, ast.Attribute)
        and func.attr in LOG_METHODS
        and last_name(func.value).endswith(("log", "logger"))
    )


def is_mark(call: ast.Call) -> bool:
    return (
        isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name) and call.func.value.id == "marks"
    )


def mentions_marks(node: ast.AST) -> bool:
    return any(isinstance(each, ast.Call) and is_mark(each) for each in ast.walk(node))


def is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) in {int, float}


def is_step(node: ast.stmt) -> bool:
    """A call or an assignment that could stand before or after its neighbour."""
    return isinstance(node, ast.Expr | ast.Assign | ast.AugAssign) and not is_unseen(node)


def count_awaits(node: ast.stmt) -> int:
    return int(any(isinstance(each, ast.Await) for each in ast.walk(node)))


def depend(first: ast.stmt, second: ast.stmt) -> bool:
    """Whether one binds a local name that the other reads."""
    return bool((stored(first) & named(second)) | (stored(second) & named(first)))


def stored(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}


def named(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def bound_before(function: Function, target: ast.Name) -> Iterable[str]:
    args = function.args
    yield from (each.arg for each in (*args.posonlyargs, *args.args, *args.kwonlyargs))
    for each in ast.walk(function):
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store) and each.lineno < target.lineno:
            yield each.id
