"""Arguments: makes what a handler's function gets for one message, as its annotations ask.

Put together once, at start; a handler that takes one thing gets it by one call. It knows no hooks, no retries and no
outcomes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from framework.declare import ConsumerSpec
from framework.declare.arguments import Argument
from framework.declare.decoding import Decode
from framework.model.delivery import Delivery
from framework.model.message import Message
from framework.services.call.resources import Scope, Values
from framework.services.call.undecodable import Undecodable

Value = Callable[[Message, Delivery | None], object]


class Arguments:
    """What the function takes, for callers that pass it without a call per argument."""

    __slots__ = ("convert", "errors", "function", "refused", "takes", "undecodable")

    def __init__(self, spec: ConsumerSpec, undecodable: Undecodable) -> None:
        self.function: Callable[..., Any] = spec.function
        self.undecodable = undecodable
        self.takes: str | None = None
        """What it takes beside or instead of a body: "message", "delivery" or "" for nothing; None where it takes more,
        and only `invocation_of` knows how it is called."""
        self.convert: Decode | None = None
        """How its body is made, where it takes one; it may raise one of `errors`, which `refused` makes one of ours."""
        self.errors: tuple[type[Exception], ...] = ()
        self.refused: Callable[[Exception], Exception] = _unchanged
        wants, first = [each.wants for each in spec.arguments], spec.arguments[0]
        if any(each.by_name or each.resource is not None or each.many for each in spec.arguments):
            return
        if wants == ["message"]:
            self.takes = "message"
        elif first.decode is not None and wants[1:] in ([], ["message"], ["delivery"]):
            self.takes = "".join(wants[1:])
            self.convert, self.errors, self.refused = first.decode.convert, first.decode.errors, first.decode.refused


def _unchanged(error: Exception) -> Exception:
    return error


def invocation_of(
    spec: ConsumerSpec, undecodable: Undecodable, values: Values
) -> Callable[[Message, Delivery | None], Any]:
    """The function with its arguments filled in, in one call where it takes one."""
    function = spec.function
    scope = scope_of(spec, values)
    if scope:
        return _scoped(spec, scope, [value_of(each, undecodable, values) for each in spec.arguments])
    by_place = [value_of(each, undecodable, values) for each in spec.arguments if not each.by_name]
    by_name = [(each.name, value_of(each, undecodable, values)) for each in spec.arguments if each.by_name]
    if by_name:
        return lambda message, delivery: function(
            *[value(message, delivery) for value in by_place],
            **{name: value(message, delivery) for name, value in by_name},
        )
    arguments = Arguments(spec, undecodable)
    if arguments.takes is not None:
        return _without_calls(arguments)
    if len(by_place) == 2:
        one, two = by_place
        return lambda message, delivery: function(one(message, delivery), two(message, delivery))
    return lambda message, delivery: function(*[value(message, delivery) for value in by_place])


def _without_calls(arguments: Arguments) -> Callable[..., Any]:
    """The same for what most handlers take, without a call per argument."""
    function, convert, errors, refused = arguments.function, arguments.convert, arguments.errors, arguments.refused
    undecodable = arguments.undecodable
    if convert is None:
        return lambda message, _=None: function(message)
    made = convert

    def alone(message: Message, _: Delivery | None = None) -> object:
        body = message._body or message._source.body(message._at)  # noqa: SLF001 - the property costs a call
        try:
            value = made(body)
        except errors as error:
            raise refused(error) from None
        undecodable.row = 0
        return function(value)

    def with_message(message: Message, _: Delivery | None = None) -> object:
        body = message._body or message._source.body(message._at)  # noqa: SLF001 - the property costs a call
        try:
            value = made(body)
        except errors as error:
            raise refused(error) from None
        undecodable.row = 0
        return function(value, message)

    def with_delivery(message: Message, delivery: Delivery | None = None) -> object:
        body = message._body or message._source.body(message._at)  # noqa: SLF001 - the property costs a call
        try:
            value = made(body)
        except errors as error:
            raise refused(error) from None
        undecodable.row = 0
        return function(value, delivery)

    return {"": alone, "message": with_message, "delivery": with_delivery}[arguments.takes or ""]


def scope_of(spec: ConsumerSpec, values: Values) -> Scope:
    return Scope([each.resource for each in spec.arguments if each.resource is not None], values)


def _scoped(spec: ConsumerSpec, scope: Scope, fill: Sequence[Value]) -> Callable[[Message, Delivery | None], Any]:
    """The same with resources opened around it, once the body has been read."""
    around = scope.around if spec.is_async else scope.around_at_once

    def invoke(message: Message, delivery: Delivery | None) -> object:
        row = [value(message, delivery) for value in fill]
        of_message = {Message: message, Delivery: delivery}
        return around(lambda made: called_with(spec, row, made), of_message)

    return invoke


def called_with(spec: ConsumerSpec, row: Sequence[object], made: Values) -> Any:
    """The function called with these values; resources that were opened for this call replace those in `row`."""
    by_place: list[object] = []
    by_name: dict[str, object] = {}
    for argument, value in zip(spec.arguments, row, strict=True):
        filled = value if argument.resource is None else made[argument.resource]
        if argument.by_name:
            by_name[argument.name] = filled
        else:
            by_place.append(filled)
    return spec.function(*by_place, **by_name)


def value_of(argument: Argument, undecodable: Undecodable, values: Values) -> Value:
    """How one argument is made of one message."""
    wanted = argument.resource
    if wanted is not None:
        return lambda _message, _delivery: values.get(wanted)
    if argument.wants == "message":
        return lambda message, _: message
    if argument.wants == "delivery":
        return lambda _, delivery: delivery
    decode = argument.decode
    if decode is None:
        return lambda message, _: message.body

    def decoded(message: Message, _: Delivery | None) -> object:
        value = decode(message.body)
        undecodable.row = 0
        return value

    return decoded
