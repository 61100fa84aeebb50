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
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from framework import marks


@dataclass(frozen=True, slots=True)
class Change:
    """Lines of one module, as they are, and as they are without the safeguard."""

    module: str
    right: str
    wrong: str

    def put_into(self, source: str) -> str:
        assert 1 == source.count(self.right), f"{self.module} does not read so any more: {self.right!r}"
        return source.replace(self.right, self.wrong)


CHANGES: dict[str, tuple[Change, ...]] = {
    "commits stop at the first gap": (
        Change(
            "framework.core.window",
            "max(self.committable, chunks[0].low_offset)",
            "max(self.committable, *(chunk.low_offset for chunk in chunks))",
        ),
    ),
    "what moved during a flush stays dirty": (
        Change(
            "framework.core.offsets",
            "        if queue in self._told and offset <= self._committable[queue]:\n",
            "        if queue in self._told and offset <= self._committable[queue]:\n"
            "            offset = self._committable[queue]\n",
        ),
    ),
    "a lease is counted from its request": (
        Change("framework.core.order_lease", "        since_ms = asking.sent_ms\n", "        since_ms = now_ms\n"),
    ),
    "a key is in one line at a time": (
        Change("framework.core.lanes", "        line = self._lines.get(key)\n", "        line = None\n"),
    ),
    "offsets wait for the commit": (
        Change(
            "framework.core.line",
            "        portion.next = begin + count\n        if not self.is_manual:\n",
            "        portion.next = begin + count\n        if True:\n",
        ),
    ),
    "messages are compared before they are passed over": (
        Change(
            "framework.core.ranges",
            "    if at_low != found.low:\n",
            "    return None\n    if at_low != found.low:\n",
        ),
    ),
    "the last message passed over is compared, too": (
        Change("framework.core.ranges", "    if at_last != found.last:\n", "    if False:\n"),
    ),
    "who leaves while we join keeps its seat": (
        Change("framework.core.attendance", "dict.fromkeys((*self._absent, *listed))", "dict.fromkeys(self._absent)"),
    ),
    "a seat is kept through a restart": (
        Change("framework.core.attendance", "now_ms + grace_of(member)):\n", "now_ms):\n"),
    ),
    "a newcomer expects no broker back": (
        Change(
            "framework.core.attendance",
            "        return self._newest_ms + limits.KNOWN_MS <= gone_ms\n",
            "        return True\n",
        ),
    ),
    "a broker that was restarted takes nobody off the list": (
        Change("framework.core.rolls", "        if not is_same:\n", "        if False:\n"),
        Change(
            "framework.services.rebalance",
            "        brokers = self._routes.brokers_of(topic)\n        missing",
            "        brokers = self._routes.brokers_of(topic)[:1]\n        missing",
        ),
    ),
    "queues that stay are left alone": (
        Change("framework.core.assignment", ".intersection(now)", ".intersection(now if now == before else ())"),
    ),
}


@contextmanager
def left_out(*names: str | None) -> Iterator[None]:
    """The code without these safeguards; as it is, where there is None."""
    marked = {name for name in names if name is not None} - CHANGES.keys()
    if marked:
        marks.install(holds=lambda name: name not in marked)
    try:
        with changed(*names):
            yield
    finally:
        if marked:
            marks.install()


@contextmanager
def changed(*names: str | None) -> Iterator[None]:
    """The same, of those safeguards that are no marks."""
    replaced: list[tuple[FunctionType, CodeType]] = []
    changes = [change for name in names if name is not None for change in CHANGES.get(name, ())]
    try:
        for function, code in (each for change in changes for each in replacements(change)):
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
    was, now = (dict(_functions(compile(text, module.__file__, "exec"))) for text in (source, change.put_into(source)))
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
