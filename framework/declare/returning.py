"""What a handler says that it returns, where that would not do what it seems to.

Any value that is no result counts as success, which is right for what a function returns by the way. A `bool` is not
that: who writes it expects `False` to be heard, and the message would be lost.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import UnionType
from typing import Any, Union, get_args, get_origin

from framework.declare.annotations import resolved
from framework.errors import ConfigurationError
from framework.mistakes import ReturnWrong


def check_return(function: Callable[..., object], names: Mapping[str, Any], *, is_used: bool) -> None:
    """Refuse a handler that returns `bool` which is not sent on. What only type checkers know is let be."""
    annotation: Any = getattr(inspect.unwrap(function), "__annotations__", {}).get("return")
    if isinstance(annotation, str):
        try:
            annotation = resolved(annotation, function, names, "return")
        except ConfigurationError:
            return
    kinds = get_args(annotation) if get_origin(annotation) in {Union, UnionType} else (annotation,)
    if bool in kinds and not is_used:
        raise ReturnWrong(
            'returns bool, but False would count as handled; raise or return RetryLater("30s") to retry, and annotate '
            "-> RetryLater | None"
        )
