"""@publishes and @replies: that what a handler returns is sent to a topic, or is the reply to a request, said at the
function. Decorating has no other effect.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from framework.declare.gathering import found_so_far, placeholder
from framework.errors import ConfigurationError, retold, shorten
from framework.mistakes import PublishesWrong, RepliesWrong
from framework.model.sendable import check_sendable

F = TypeVar("F", bound=Callable[..., Any])

_ATTRIBUTE, _CODEC, _ORDER_KEY = (
    f"__framework_{name}__" for name in ("publishes", "publish_codec", "publish_order_key")
)
_EXAMPLE = 'write @publishes("invoices") between @consumer(...) and the function'


def publishes(*topics: str, codec: str = "", order_key: Callable[[Any], str | None] | None = None) -> Callable[[F], F]:
    """Send what the handler returns to this topic, before its message is done. If a send fails, the message is retried.

    A text or bytes is a body. A pydantic model, dataclass, struct or dict becomes JSON. A `Message` has its own keys,
    tags and properties. A list is several of these. Nothing, or a result such as `RetryLater`, sends nothing. With
    several topics each `Message` names one of them.

    `codec="avro"`: a plugin's codec makes the body, except from a `Message` or bytes. `order_key`: a function that says
    which key a result has, or None; all messages of one key go to one queue, in order. A `Message` has its own.
    """

    def declared(function: F) -> F:
        function, findings = found_so_far(function)
        code = getattr(inspect.unwrap(function), "__code__", None) if callable(function) else None
        place = f"{code.co_filename}:{code.co_firstlineno}" if code is not None else None
        try:
            if code is None or hasattr(function, "spec"):
                raise PublishesWrong(f"@publishes above {shorten(function)}: {_EXAMPLE}")
            _check(topics, codec, order_key, function)
        except ConfigurationError as error:
            findings.note(error)
        if findings:
            return placeholder(function, findings, place)  # type: ignore[return-value]  # where it is gathered
        setattr(function, _ATTRIBUTE, topics)
        setattr(function, _CODEC, codec)
        setattr(function, _ORDER_KEY, order_key)
        return function

    if len(topics) == 1 and callable(topics[0]):
        raise PublishesWrong(f"@publishes without a topic; {_EXAMPLE}")
    return declared


def _check(topics: tuple[object, ...], codec: object, order_key: object, function: Callable[..., object]) -> None:
    if not topics:
        raise PublishesWrong(f"@publishes names no topic; {_EXAMPLE}")
    if topics_of(function):
        raise PublishesWrong('@publishes is there twice; write @publishes("one", "two")')
    if not isinstance(codec, str) or (codec and len(topics) > 1):
        wish = (
            "name one topic; with several topics each result is a Message, which has its own body"
            if codec
            else "a text"
        )
        raise PublishesWrong(f"@publishes: codec={shorten(codec)}: {wish}")
    if order_key is not None and (not callable(order_key) or len(topics) > 1):
        wish = (
            "name one topic; with several topics each result is a Message, which has its own order_key"
            if callable(order_key)
            else "a function that says which key a result has, such as lambda invoice: invoice.customer"
        )
        raise PublishesWrong(f"@publishes: order_key={shorten(order_key)}: {wish}")
    for topic in topics:
        if not isinstance(topic, str):
            raise PublishesWrong(f"@publishes({shorten(topic)}): a topic is a text; {_EXAMPLE}")
        try:
            check_sendable(topic)
        except ConfigurationError as error:
            raise retold(error, f"@publishes: {error}") from None


def topics_of(function: Callable[..., object]) -> tuple[str, ...]:
    """Where what this function returns is sent; none where nothing was declared."""
    found: tuple[str, ...] = getattr(function, _ATTRIBUTE, ())
    return found


def codec_of(function: Callable[..., object]) -> str:
    """Which codec makes bodies of it; empty where none was named."""
    found: str = getattr(function, _CODEC, "")
    return found


def order_key_of(function: Callable[..., object]) -> Callable[[Any], str | None] | None:
    """Which function says a result's order key; None where none was named."""
    found: Callable[[Any], str | None] | None = getattr(function, _ORDER_KEY, None)
    return found


_REPLIES = "__framework_replies__"
_REPLIES_EXAMPLE = "write @replies between @consumer(...) and the function"


def replies(function: F) -> F:
    """Send what the handler returns to the producer whose `request()` waits for it, before its message is done.

    A text or bytes is the body; a pydantic model, dataclass, struct or dict becomes JSON. Nothing, or a result such as
    `RetryLater`, is no reply. A message that is no request is handled as usual, and what is returned goes nowhere. So
    does a reply that comes too late: it is dropped and counted, and the message is done.
    """
    plain, findings = found_so_far(function)
    code = getattr(inspect.unwrap(plain), "__code__", None) if callable(plain) else None
    place = f"{code.co_filename}:{code.co_firstlineno}" if code is not None else None
    if code is None or hasattr(plain, "spec"):
        findings.note(RepliesWrong(f"@replies above {shorten(plain)}: {_REPLIES_EXAMPLE}"))
    if findings:
        return placeholder(plain, findings, place)  # type: ignore[return-value]  # where it is gathered
    setattr(plain, _REPLIES, True)
    return plain  # type: ignore[no-any-return]  # the function itself


def is_replying(function: Callable[..., object], commit: object, batch: int) -> bool:
    """Whether what it returns is a reply; RepliesWrong where something else is done with it."""
    if not getattr(function, _REPLIES, False):
        return False
    if commit == "manual" or batch:
        which = 'commit="manual"' if commit == "manual" else f"batch={batch}"
        raise RepliesWrong(f"@replies and {which}: both use what the handler returns; remove one")
    if topics_of(function):
        raise RepliesWrong("@replies and @publishes: both use what the handler returns; use a Producer for one")
    return True
