"""Left out: the code without one of its safeguards, in this process and for a while: `with left_out("NAME"):`.

A safeguard is a few lines of the code. What would stand there without it is here and not in the code, where a question
whether to be right would be in the way. Functions get the code of the changed source while the block lasts, whoever has
imported them. A call that has begun goes on as it was.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from tests.simulation.change import Change
from tests.simulation.safeguards import SAFEGUARDS


@contextmanager
def left_out(*names: str | None) -> Iterator[None]:
    """The code without these safeguards; as it is, where there is None."""
    changes = [change for name in names if name is not None for change in SAFEGUARDS[name]]
    replaced: list[tuple[FunctionType, CodeType]] = []
    try:
        for function, code in (each for change in changes for each in replacements(change)):
            assert not any(function is each for each, _ in replaced), f"{function.__qualname__} is changed twice"
            replaced.append((function, function.__code__))
            function.__code__ = code
        yield
    finally:
        for function, code in reversed(replaced):
            function.__code__ = code


@cache
def replacements(change: Change) -> list[tuple[FunctionType, CodeType]]:
    """The functions that read otherwise with the change, each with what it reads then."""
    module = importlib.import_module(change.module)
    assert module.__file__ is not None
    source = Path(module.__file__).read_text(encoding="utf-8")
    was, now = (
        dict(_functions(compile(text, module.__file__, "exec", dont_inherit=True)))
        for text in (source, change.put_into(source))
    )
    assert was.keys() == now.keys(), f"{change.module}: the change is not inside of functions"
    found = [(_named(module, name), now[name]) for name in was if not _is_same(was[name], now[name])]
    assert found, f"{change.module}: the change changes nothing"
    return found


def _functions(code: CodeType) -> Iterator[tuple[str, CodeType]]:
    """Of a module and its classes, by their names; what stands in a function goes with it."""
    for each in code.co_consts:
        if isinstance(each, CodeType):
            if each.co_flags & inspect.CO_NEWLOCALS:
                yield each.co_qualname, each
            else:
                yield from _functions(each)


def _is_same(one: CodeType, other: CodeType) -> bool:
    """Whether they do the same; which lines they stand in is no matter."""
    if (one.co_code, one.co_names, len(one.co_consts)) != (other.co_code, other.co_names, len(other.co_consts)):
        return False
    return all(
        _is_same(a, b) if isinstance(a, CodeType) and isinstance(b, CodeType) else (type(a), a) == (type(b), b)
        for a, b in zip(one.co_consts, other.co_consts, strict=True)
    )


def _named(module: ModuleType, name: str) -> FunctionType:
    found: Any = module
    for part in name.split("."):
        found = inspect.getattr_static(found, part)
    found = found.fget if isinstance(found, property) else getattr(found, "__func__", found)
    function: Callable[..., object] = inspect.unwrap(found)
    assert isinstance(function, FunctionType), f"{module.__name__}: {name} is no plain function"
    assert function.__code__.co_qualname == name, f"{module.__name__}: {name} is another function"
    return function
