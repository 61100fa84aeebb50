"""Whatever can be raised: one table, which is run against every hook and every offer."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import pytest


class Panic(BaseException):
    """As libraries in Rust have theirs."""


def _of(error: BaseException) -> Callable[..., NoReturn]:
    def act(*_: object, **__: object) -> NoReturn:
        raise error

    return act


def _exits(*given: Any) -> Callable[..., NoReturn]:
    def act(*_: object, **__: object) -> NoReturn:
        sys.exit(*given)

    return act


def _interrupts(*_: object, **__: object) -> NoReturn:
    raise KeyboardInterrupt


RAISED: dict[str, Callable[..., NoReturn]] = {
    "Exception": _of(ValueError("oh")),
    "BaseException": _of(Panic("oh")),
    "BaseExceptionGroup": _of(BaseExceptionGroup("oh", [SystemExit(3)])),
    "exit 0": _exits(0),
    "exit 3": _exits(3),
    "exit None": _exits(),
    "exit text": _exits("text"),
    "KeyboardInterrupt": _interrupts,
    "GeneratorExit": _of(GeneratorExit()),
    "CancelledError": _of(asyncio.CancelledError()),
    "StopIteration": _of(StopIteration(3)),
}
"""What a plugin may raise -> who raises it, whatever he is given."""

whatever = pytest.mark.parametrize("raises", RAISED.values(), ids=RAISED)
