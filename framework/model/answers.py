"""Answers of handlers that seem to ask for something and would count as success: their message would be lost.

Any other value that is no outcome is success, for a handler may return what it likes.
"""

from __future__ import annotations

from types import AsyncGeneratorType, CoroutineType, GeneratorType

from framework.model.outcome import OUTCOMES, Extend
from framework.model.retrying import Retry

_NOTHING_RAN = (CoroutineType, GeneratorType, AsyncGeneratorType, map)
_OF_OTHERS = (Extend, Retry)
"""Made for an expiry policy, and for `@consumer(retry=...)`."""


def understood(answer: object) -> object:
    """The answer, or the TypeError that its handler fails with."""
    if isinstance(answer, type):
        way = way_out(answer)
        return TypeError(f"the handler returned the class {answer.__name__}; {way}") if way else answer
    if isinstance(answer, BaseException):
        return answer if isinstance(answer, Exception) else TypeError(f"the handler returned {answer!r}; raise it")
    if isinstance(answer, _OF_OTHERS):
        return TypeError(f"the handler returned {_named(answer)}; {way_out(type(answer))}")
    if isinstance(answer, _NOTHING_RAN):
        if isinstance(answer, CoroutineType | GeneratorType):
            answer.close()  # or Python warns of it later, where nobody knows whose it was
        way = "loop over it" if isinstance(answer, GeneratorType | map) else "await it in an async handler"
        return TypeError(f"the handler returned {_named(answer)}, so nothing of that has run; {way}")
    if hasattr(type(answer), "__await__"):
        return TypeError(f"the handler returned {_named(answer)} without waiting for it; await it in an async handler")
    return answer


def way_out(kind: type) -> str:
    """What to write instead of this class, or of what it makes; empty where nothing is wrong with it."""
    if issubclass(kind, OUTCOMES):
        return f"return {kind.__name__}(...)"
    if issubclass(kind, BaseException):
        return f"raise {kind.__name__}(...)"
    return "return RetryLater(...)" if issubclass(kind, _OF_OTHERS) else ""


def _named(answer: object) -> str:
    name = type(answer).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name.replace('_', ' ')}"
