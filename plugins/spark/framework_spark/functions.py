"""Whether a function can be a handler with `engine="spark"`. It runs nothing of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, get_origin, get_type_hints

from framework import Delivery, Message
from framework_spark.mistakes import SparkMisused

_OTHERS: tuple[Any, ...] = (list, tuple, dict, str, bytes, Message, Delivery)
"""What handlers without an engine are given."""


def takes_a_frame(function: Callable[..., object]) -> None:
    """SparkMisused for what would fail with each batch: after all its retries each message were a dead letter."""
    if inspect.isgeneratorfunction(function):
        raise SparkMisused(
            "the engine 'spark' calls plain functions: return a frame of verdicts, or nothing, and no yield"
        )
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # one in C that does not say
        return
    try:
        bound = signature.bind(None)
    except TypeError:
        raise SparkMisused(
            f"the engine 'spark' calls it with one argument, the DataFrame of the batch, and it is {function.__name__}"
            f"{signature}; write def {function.__name__}(frame)"
        ) from None
    if not bound.arguments:  # *args alone
        return
    parameter = next(iter(bound.arguments))
    hint = _hint(function, parameter)
    if hint in _OTHERS or get_origin(hint) in _OTHERS:
        raise SparkMisused(
            f"the engine 'spark' calls it with the DataFrame of the batch, and {parameter!r} is annotated "
            f"{signature.parameters[parameter].annotation}; write {parameter}: DataFrame, or remove engine"
        )


def _hint(function: Callable[..., object], parameter: str) -> Any:
    try:
        return get_type_hints(function).get(parameter)
    except Exception:  # noqa: BLE001 - border: a user's names, which need not be there when it runs
        return None
