"""@replies: that what a handler returns is the reply to a request, said at the function."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from framework.declare.gathering import found_so_far, placeholder
from framework.declare.publishing import topics_of
from framework.errors import shorten
from framework.mistakes import RepliesWrong

F = TypeVar("F", bound=Callable[..., Any])

_ATTRIBUTE = "__framework_replies__"
_EXAMPLE = "write @replies between @consumer(...) and the function"


def replies(function: F) -> F:
    """Send what the handler returns to the producer whose `request()` waits for it, before its message is done.

    A text or bytes is the body; a pydantic model, dataclass, struct or dict becomes JSON. Nothing, or a result such as
    `RetryLater`, is no reply. A message that is no request is handled as ever, and what is returned goes nowhere. So
    does a reply that comes too late: it is dropped and counted, and the message is done.
    """
    plain, findings = found_so_far(function)
    code = getattr(inspect.unwrap(plain), "__code__", None) if callable(plain) else None
    place = f"{code.co_filename}:{code.co_firstlineno}" if code is not None else None
    if code is None or hasattr(plain, "spec"):
        findings.note(RepliesWrong(f"@replies above {shorten(plain)}: {_EXAMPLE}"))
    if findings:
        return placeholder(plain, findings, place)  # type: ignore[return-value]  # where it is gathered
    setattr(plain, _ATTRIBUTE, True)
    return plain  # type: ignore[no-any-return]  # the function itself


def is_replying(function: Callable[..., object], commit: object, batch: int) -> bool:
    """Whether what it returns is a reply; RepliesWrong where something else is done with it."""
    if not getattr(function, _ATTRIBUTE, False):
        return False
    if commit == "manual" or batch:
        which = 'commit="manual"' if commit == "manual" else f"batch={batch}"
        raise RepliesWrong(f"@replies and {which}: both use what the handler returns; remove one")
    if topics_of(function):
        raise RepliesWrong("@replies and @publishes: both use what the handler returns; use a Producer for one")
    return True
