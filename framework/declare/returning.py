"""What a handler says that it returns, where that would not do what it seems to.

Any value that is no result counts as success, which is right for what a function returns by the way. A `bool` is not
that: who writes it expects `False` to be heard, and the message would be lost. What `model/answers.py` refuses of a
handler that runs, an annotation may show before.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from framework.declare.annotations import resolved
from framework.errors import ConfigurationError
from framework.mistakes import ReturnWrong
from framework.model.answers import way_out
from framework.model.outcome import OUTCOMES


def check_return(function: Callable[..., object], names: Mapping[str, Any], *, is_used: bool, is_batch: bool) -> None:
    """Refuse a handler that returns what fails when it runs, or `bool` which is not sent on. What only type checkers
    know is let be.
    """
    annotation: Any = getattr(inspect.unwrap(function), "__annotations__", {}).get("return")
    if isinstance(annotation, str):
        try:
            annotation = resolved(annotation, function, names, "return")
        except ConfigurationError:
            return
    for kind in _kinds(annotation):
        if kind is bool and not is_used and not is_batch:
            raise ReturnWrong(
                'returns bool, but False would count as handled; raise or return RetryLater("30s") to retry, and '
                "annotate -> RetryLater | None"
            )
        is_list = is_batch and issubclass(_class_of(kind), Sequence)
        items = [item for each in get_args(kind) for item in _kinds(each)] if is_list else []
        for each in (kind, *items):
            if fault := _fault(each, is_batch=is_batch):
                raise ReturnWrong(f"returns {fault}")


def _fault(kind: Any, *, is_batch: bool) -> str:
    """With what the handler would fail, and what to write instead; empty where it would not."""
    if get_origin(kind) is type:
        ways = [(each, way_out(_class_of(each))) for each in _kinds(get_args(kind)[0])]
        return next((f"the class {each.__name__}, which fails; {way}" for each, way in ways if way), "")
    made = _class_of(kind)
    if issubclass(made, Awaitable | Generator):
        way = "return what it makes" if issubclass(made, Generator) else "await it in an async handler"
        return f"{made.__name__}, of which nothing would have run; {way}"
    if is_batch and made is bool:
        return "bool, which fails; a batch handler returns None, an outcome, a list of them or an index"
    may_be = (*OUTCOMES, Exception) if is_batch else OUTCOMES  # a batch's list may hold each message's own
    way = "" if issubclass(made, may_be) else way_out(made)
    return f"{made.__name__}, which fails; {way}" if way else ""


def _class_of(kind: Any) -> type:
    """Of `list[int]` the list; object for what is no class, such as a Literal."""
    found = get_origin(kind) or kind
    return found if isinstance(found, type) else object


def _kinds(annotation: Any) -> Iterator[Any]:
    """The kinds of value that it allows, one after the other."""
    origin = get_origin(annotation)
    if hasattr(annotation, "__value__"):  # `type Answer = ...`
        yield from _kinds(annotation.__value__)
    elif origin is Annotated:
        yield from _kinds(get_args(annotation)[0])
    elif origin in {Union, UnionType}:
        for each in get_args(annotation):
            yield from _kinds(each)
    else:
        yield annotation
