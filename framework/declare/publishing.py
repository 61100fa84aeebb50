"""@publishes: that what a handler returns is sent to a topic, said at the function. Decorating has no other effect."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from framework.errors import ConfigurationError, shorten
from framework.model.reserved import check_topic

F = TypeVar("F", bound=Callable[..., Any])

_ATTRIBUTE = "__framework_publishes__"
_EXAMPLE = 'write @publishes("invoices") between @consumer(...) and the function'


def publishes(*topics: str) -> Callable[[F], F]:
    """Send what the handler returns to this topic, before its message is settled; a send that fails is a retry.

    A text or bytes is a body, a pydantic model, dataclass, struct or dict becomes JSON, a `Message` has keys, tags and
    properties of its own, and a list is several of these. Nothing, or an outcome, sends nothing. With several topics
    each `Message` names one of them.
    """

    def declared(function: F) -> F:
        code = getattr(inspect.unwrap(function), "__code__", None) if callable(function) else None
        place = f"{code.co_filename}:{code.co_firstlineno}" if code is not None else None
        if code is None or hasattr(function, "spec"):
            raise ConfigurationError(f"@publishes above {shorten(function)}: {_EXAMPLE}", place=place)
        if not topics:
            raise ConfigurationError(f"@publishes names no topic; {_EXAMPLE}", place=place)
        if topics_of(function):
            raise ConfigurationError('@publishes stands there twice; write @publishes("one", "two")', place=place)
        for topic in topics:
            if not isinstance(topic, str):
                raise ConfigurationError(f"@publishes({shorten(topic)}): a topic is a text; {_EXAMPLE}", place=place)
            try:
                check_topic(topic)
            except ConfigurationError as error:
                raise ConfigurationError(f"@publishes: {error}", place=place) from None
        setattr(function, _ATTRIBUTE, topics)
        return function

    if len(topics) == 1 and callable(topics[0]):
        raise ConfigurationError(f"@publishes without a topic; {_EXAMPLE}")
    return declared


def topics_of(function: Callable[..., object]) -> tuple[str, ...]:
    """Where what this function returns is sent; none where nothing was declared."""
    found: tuple[str, ...] = getattr(function, _ATTRIBUTE, ())
    return found
