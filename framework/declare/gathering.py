"""Mistakes of decorators: raised where they stand, or gathered while modules are imported to be checked.

An import that ends at the first mistake hides all that come after it. So a check has them noted, and goes on with a
placeholder for the handler that repeats them, for the module stays imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from framework.errors import Findings, retold

_FINDINGS: ContextVar[Findings | None] = ContextVar("findings", default=None)


class Mistaken:
    """A function whose decorators cannot work. It runs when it is called, and no group consumes with it."""

    def __init__(self, function: Callable[..., object], findings: Findings, group: str | None = "") -> None:
        self.function, self.findings = function, findings
        self.group = group
        """The one that it would consume in; empty where it would not consume, None where that is not known."""

    def __call__(self, *args: Any, **kwargs: Any) -> object:
        return self.function(*args, **kwargs)


@contextmanager
def gathering(findings: Findings) -> Iterator[None]:
    """Have the mistakes of decorators noted there, in here."""
    token = _FINDINGS.set(findings)
    try:
        yield
    finally:
        _FINDINGS.reset(token)


def found_so_far(function: object) -> tuple[Any, Findings]:
    """The function itself, and what the decorators below have found wrong with it."""
    findings = Findings()
    if isinstance(function, Mistaken):
        findings.note(*function.findings.mistakes)
        return function.function, findings
    return function, findings


def placeholder(function: Any, findings: Findings, place: str | None, name: str = "", group: object = "") -> Mistaken:
    """What stands in the function's place, each mistake with its name and place. Raises them outside of `gathering`."""
    placed = Findings()
    for mistake in findings.mistakes:
        placed.note(mistake if mistake.place else retold(mistake, f"{name}{mistake}", place=place))
    gathered = _FINDINGS.get()
    if gathered is None:
        placed.check()
        raise AssertionError("a placeholder stands for a mistake")
    gathered.note(*placed.mistakes)
    return Mistaken(function, placed, group if isinstance(group, str) else None)
