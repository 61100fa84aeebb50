"""The log events that the sources write: room, event, levels and fields. `catalogue/events.md` is held against them."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

ROOT = Path(__file__).parents[2]
LEVELS = {"debug": "debug", "info": "info", "warning": "warning", "error": "error", "exception": "error"}
SUMMED_UP = "framework/services/recurring.py"
"""It writes the events of others, which are found where they are handed to it."""

# Calls whose event is not a text there: what they write, by level.
ELSEWHERE: dict[tuple[str, str], dict[str, tuple[str, ...]]] = {
    ("framework/services/queue/pull.py", "trouble"): {
        "error": ("record damaged",), "warning": ("pull failed", "queue not begun", "pulls not advancing"),
    },
    ("framework/broker/store/database.py", "event"): {
        "warning": ("data folder permissions tightened", "database permissions tightened"),
    },
    ("plugins/outbox/framework_outbox/relay.py", "self._event"): {
        "warning": ("outbox table unavailable", "outbox sending failed"),
    },
}  # fmt: skip
Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Event:
    """What the lines of one event in one room have."""

    levels: set[str] = field(default_factory=set)
    fields: dict[str, None] = field(default_factory=dict)


@functools.cache
def events() -> dict[str, dict[str, Event]]:
    """Of each room and plugin, by the event's name."""
    found: dict[str, dict[str, Event]] = {}
    for path in sources():
        where = path.relative_to(ROOT)
        for name, level, fields in events_of(ast.parse(path.read_text()), str(where)):
            event = found.setdefault(where.parts[1], {}).setdefault(name, Event())
            event.levels.add(level)
            event.fields.update(dict.fromkeys(fields))
    return found


def sources() -> Iterator[Path]:
    """The files of `framework` without `testing`, and of the plugins without their tests."""
    yield from (path for path in sorted((ROOT / "framework").rglob("*.py")) if "testing" not in path.parts)
    yield from sorted((ROOT / "plugins").glob("*/framework_*/**/*.py"))


def events_of(tree: ast.Module, where: str) -> Iterator[tuple[str, str, list[str]]]:
    """Event, level and the names of its fields, for each call that writes a line."""
    if where == SUMMED_UP:
        return
    module = _names(tree)
    for function in [each for each in ast.walk(tree) if isinstance(each, Function)]:
        names = module | _names(function)
        for call in ast.walk(function):
            if isinstance(call, ast.Call) and call.args:
                fields = [each.arg for each in call.keywords if each.arg and each.arg not in {"exc_info", "first"}]
                for event, level in _written(call, names, f"{where}:{call.lineno}"):
                    yield event, level, fields


def _written(call: ast.Call, names: dict[str, ast.expr], place: str) -> Iterator[tuple[str, str]]:
    function, event = _known(call.func, names), _known(call.args[0], names)
    if isinstance(function, ast.Attribute) and function.attr == "say" and len(call.args) >= 3:
        yield str(ast.literal_eval(call.args[1])), str(ast.literal_eval(call.args[0]))
    elif isinstance(function, ast.IfExp) and _level(function.body) and _level(function.orelse):
        sides = [(function.body, event), (function.orelse, event)]
        if isinstance(event, ast.IfExp) and ast.unparse(event.test) == ast.unparse(function.test):
            sides = [(function.body, event.body), (function.orelse, event.orelse)]
        for method, text in sides:
            yield str(ast.literal_eval(text)), str(_level(method))
    elif level := _level(function):
        known = ELSEWHERE.get((place.partition(":")[0], ast.unparse(call.args[0])))
        if known is not None:
            yield from ((each, level) for each in known.get(level, ()))
            return
        for text in [event.body, event.orelse] if isinstance(event, ast.IfExp) else [event]:
            assert isinstance(text, ast.Constant), f"{place}: write the event as a text, not {ast.unparse(text)}"
            yield str(text.value), level


def _level(node: ast.expr) -> str | None:
    """Of a logger's method."""
    if not isinstance(node, ast.Attribute) or node.attr not in LEVELS:
        return None
    logger = ast.unparse(node.value)
    return LEVELS[node.attr] if logger in {"log", "_log"} or logger.endswith("get_logger()") else None


def _names(tree: ast.AST) -> dict[str, ast.expr]:
    """What the names that are assigned once here stand for."""
    return {
        node.targets[0].id: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name)
    }


def _known(node: ast.expr, names: dict[str, ast.expr]) -> ast.expr:
    return names.get(node.id, node) if isinstance(node, ast.Name) else node
