"""@publishes: that what a handler returns is sent to a topic, said at the function. Decorating has no other effect."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from framework.declare.gathering import found_so_far, placeholder
from framework.errors import ConfigurationError, shorten
from framework.model.reserved import check_topic

F = TypeVar("F", bound=Callable[..., Any])

_ATTRIBUTE, _CODEC = "__framework_publishes__", "__framework_publish_codec__"
_EXAMPLE = 'write @publishes("invoices") between @consumer(...) and the function'


def publishes(*topics: str, codec: str = "") -> Callable[[F], F]:
    """Send what the handler returns to this topic, before its message is done. If a send fails, the message is retried.

    A text or bytes is a body. A pydantic model, dataclass, struct or dict becomes JSON. A `Message` has its own keys,
    tags and properties. A list is several of these. Nothing, or a result such as `RetryLater`, sends nothing. With
    several topics each `Message` names one of them.

    `codec="avro"`: a plugin's codec makes the body, except from a `Message` or bytes.
    """

    def declared(function: F) -> F:
        function, findings = found_so_far(function)
        code = getattr(inspect.unwrap(function), "__code__", None) if callable(function) else None
        place = f"{code.co_filename}:{code.co_firstlineno}" if code is not None else None
        try:
            if code is None or hasattr(function, "spec"):
                raise ConfigurationError(f"@publishes above {shorten(function)}: {_EXAMPLE}")
            _check(topics, codec, function)
        except ConfigurationError as error:
            findings.note(error)
        if findings:
            return placeholder(function, findings, place)  # type: ignore[return-value]  # where it is gathered
        setattr(function, _ATTRIBUTE, topics)
        setattr(function, _CODEC, codec)
        return function

    if len(topics) == 1 and callable(topics[0]):
        raise ConfigurationError(f"@publishes without a topic; {_EXAMPLE}")
    return declared


def _check(topics: tuple[object, ...], codec: object, function: Callable[..., object]) -> None:
    if not topics:
        raise ConfigurationError(f"@publishes names no topic; {_EXAMPLE}")
    if topics_of(function):
        raise ConfigurationError('@publishes is there twice; write @publishes("one", "two")')
    if not isinstance(codec, str) or (codec and len(topics) > 1):
        wish = (
            "name one topic; with several topics each result is a Message, which has its own body"
            if codec
            else "a text"
        )
        raise ConfigurationError(f"@publishes: codec={shorten(codec)}: {wish}")
    for topic in topics:
        if not isinstance(topic, str):
            raise ConfigurationError(f"@publishes({shorten(topic)}): a topic is a text; {_EXAMPLE}")
        try:
            check_topic(topic)
        except ConfigurationError as error:
            raise ConfigurationError(f"@publishes: {error}") from None


def topics_of(function: Callable[..., object]) -> tuple[str, ...]:
    """Where what this function returns is sent; none where nothing was declared."""
    found: tuple[str, ...] = getattr(function, _ATTRIBUTE, ())
    return found


def codec_of(function: Callable[..., object]) -> str:
    """Which codec makes bodies of it; empty where none was named."""
    found: str = getattr(function, _CODEC, "")
    return found
