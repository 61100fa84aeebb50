"""Arguments: what a handler wants of each message, read from its annotations once, when it is declared.

A parameter without a default is given the message, the delivery, or the body as what it is annotated. One that has a
default keeps it. With a batch each of them is a list, and the lists go side by side.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Literal, get_args, get_origin, get_type_hints

from framework.declare.decoding import KINDS, Decode, decoder_for, shown
from framework.errors import ConfigurationError
from framework.model.delivery import Delivery
from framework.model.message import Message

_OURS: dict[str, Any] = {"Message": Message, "Delivery": Delivery}


@dataclass(frozen=True, slots=True)
class Argument:
    """One parameter of a handler, and where its value comes from."""

    name: str
    wants: Literal["message", "delivery", "body"]
    decode: Decode | None = None
    """How a body becomes the value; None hands it over as it is."""
    by_name: bool = False
    """A parameter after `*`."""
    many: type[list[Any] | tuple[Any, ...]] | None = None
    """Batches: what the values are put into."""


PLAIN = (Argument("message", "message"),)
"""What a handler takes that says nothing: the message, and it alone."""


def arguments_of(
    function: Callable[..., object], names: Mapping[str, Any], *, is_batch: bool = False
) -> tuple[Argument, ...]:
    """The parameters to be filled; `names` are those known where the function stands. Raises ConfigurationError."""
    required = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind not in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}
    ]
    if not required:
        raise ConfigurationError(f"takes nothing, and there is a message to take; {KINDS}")
    return tuple(_argument(each, function, names, len(required), is_batch=is_batch) for each in required)


def _argument(
    parameter: inspect.Parameter, function: Callable[..., object], names: Mapping[str, Any], count: int, *,
    is_batch: bool,
) -> Argument:  # fmt: skip
    name, by_name = parameter.name, parameter.kind is parameter.KEYWORD_ONLY
    annotation: Any = parameter.annotation
    if isinstance(annotation, str):
        annotation = _resolved(annotation, inspect.unwrap(function), names, name)
    if annotation is parameter.empty or annotation is Any:
        if count > 1:
            raise ConfigurationError(f"parameter {name!r} says nothing; of several, each is annotated: {KINDS}")
        return Argument(name, "message", by_name=by_name, many=list if is_batch else None)
    many = None
    inner = _inside(annotation)
    if is_batch:
        if inner is None:
            wish = f"write {name}: list[{shown(annotation)}]"
            raise ConfigurationError(
                f"parameter {name!r} is annotated {shown(annotation)!r}, and a batch is many; {wish}"
            )
        annotation, many = inner, list if get_origin(annotation) is list else tuple
    elif inner is Message or inner is Delivery:
        raise ConfigurationError(
            f"parameter {name!r} is annotated {shown(annotation)!r}; to be given several, write batch=32 in @consumer"
        )
    if annotation is Message:
        return Argument(name, "message", by_name=by_name, many=many)
    if annotation is Delivery:
        return Argument(name, "delivery", by_name=by_name, many=many)
    return Argument(name, "body", decoder_for(annotation, name), by_name, many)


def _inside(annotation: Any) -> Any:
    """What a list is of; None for what is none."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is list or origin is Sequence:
        return inner[0]
    return inner[0] if origin is tuple and inner[1:] == (...,) else None


def _resolved(annotation: str, function: Callable[..., object], names: Mapping[str, Any], parameter: str) -> Any:
    """What the text means where the function stands; our own names also where only type checkers import them."""
    known = getattr(function, "__globals__", {})
    local = {**{name: kind for name, kind in _OURS.items() if name not in known}, **names}
    try:
        hints = get_type_hints(
            SimpleNamespace(__annotations__={"it": annotation}), globalns=known, localns=local, include_extras=True
        )
    except (NameError, AttributeError, SyntaxError, TypeError) as error:
        ours = _OURS.get(annotation.rpartition(".")[2])
        if ours is not None:
            return ours
        raise ConfigurationError(
            f"parameter {parameter!r} is annotated {annotation!r}, which cannot be read where the handler stands "
            f"({error}); define or import it above the handler, and not under TYPE_CHECKING"
        ) from None
    return hints["it"]
