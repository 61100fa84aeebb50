"""Arguments: what a handler wants of each message, read from its annotations once, when it is declared.

A parameter without a default gets the message, the delivery, or the body as its annotation says. One with a default
keeps it; one that names a resource gets that. With a batch each of the others is a list, and the lists
go side by side.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

from framework.declare.annotations import resolved
from framework.declare.decoding import KINDS, Decoder, decoder_for, shown
from framework.declare.resources import Resource, check, find, near
from framework.errors import ConfigurationError
from framework.mistakes import ParameterWrong, ResourceWrong
from framework.model.delivery import Delivery
from framework.model.message import Message


@dataclass(frozen=True, slots=True)
class Argument:
    """One parameter of a handler, and where its value comes from."""

    name: str
    wants: Literal["message", "delivery", "body", "resource"]
    decode: Decoder | None = None
    """How a body becomes the value; None hands it over as it is."""
    by_name: bool = False
    """A parameter after `*`."""
    many: type[list[Any] | tuple[Any, ...]] | None = None
    """Batches: what the values are put into."""
    resource: Resource[..., Any] | None = None
    """What it gets instead of something of the message."""
    annotation: Any = None
    """What a body is to become, where a codec is still to say how."""


PLAIN = (Argument("message", "message"),)
"""What a handler takes that says nothing: the message, and it alone."""


def arguments_of(
    function: Callable[..., object], names: Mapping[str, Any], *, is_batch: bool = False, has_codec: bool = False
) -> tuple[Argument, ...]:
    """The parameters to be filled; `names` are those known where the function stands. Raises ConfigurationError."""
    required = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind not in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}
    ]
    if not required:
        raise ParameterWrong(f"has no parameter for the message; {KINDS}")
    arguments = tuple(
        _argument(each, function, names, len(required), is_batch=is_batch, has_codec=has_codec) for each in required
    )
    if has_codec and all(each.wants != "body" for each in arguments):
        raise ParameterWrong("codec decodes the body, but no parameter takes the body; annotate one, or remove codec")
    resources = [each.resource for each in arguments if each.resource is not None]
    check(resources, is_async=inspect.iscoroutinefunction(function), is_batch=is_batch)
    return arguments


def _without_annotation(name: str) -> str:
    if name in {"self", "cls"}:
        return f"parameter {name!r}: handlers are functions; write it outside of the class"
    return f"parameter {name!r} has no annotation; with several parameters each needs one: {KINDS}"


def _argument(
    parameter: inspect.Parameter, function: Callable[..., object], names: Mapping[str, Any], count: int, *,
    is_batch: bool, has_codec: bool,
) -> Argument:  # fmt: skip
    name, by_name = parameter.name, parameter.kind is parameter.KEYWORD_ONLY
    wanted = find(parameter, function, names)
    if wanted is not None:
        return Argument(name, "resource", by_name=by_name, resource=wanted)
    annotation: Any = parameter.annotation
    if isinstance(annotation, str):
        annotation = resolved(annotation, inspect.unwrap(function), names, name)
    if annotation is parameter.empty or annotation is Any:
        if count > 1:
            raise ParameterWrong(_without_annotation(name))
        return Argument(name, "message", by_name=by_name, many=list if is_batch else None)
    many = None
    inner = _inside(annotation)
    if is_batch:
        if inner is None:
            wish = f"write {name}: list[{shown(annotation)}]"
            raise ParameterWrong(
                f"parameter {name!r} is annotated {shown(annotation)!r}, but a batch has several messages; {wish}"
            )
        annotation, many = inner, list if get_origin(annotation) is list else tuple
    elif inner is Message or inner is Delivery:
        raise ParameterWrong(
            f"parameter {name!r} is annotated {shown(annotation)!r}; for several messages write batch=32 in @consumer"
        )
    if annotation is Message:
        return Argument(name, "message", by_name=by_name, many=many)
    if annotation is Delivery:
        return Argument(name, "delivery", by_name=by_name, many=many)
    if has_codec:
        return Argument(name, "body", None, by_name, many, annotation=annotation)
    return Argument(name, "body", _decoder(name, annotation, function, names), by_name, many)


def _decoder(name: str, annotation: Any, function: Callable[..., object], names: Mapping[str, Any]) -> Decoder | None:
    try:
        return decoder_for(annotation, name)
    except ConfigurationError:
        if hint := near(name, function, names):
            what = f"no resource has this name, and no body becomes a {shown(annotation)!r}"
            raise ResourceWrong(f"parameter {name!r}: {what}{hint}") from None
        raise


def _inside(annotation: Any) -> Any:
    """What a list is of; None for what is none."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is list or origin is Sequence:
        return inner[0]
    return inner[0] if origin is tuple and inner[1:] == (...,) else None
