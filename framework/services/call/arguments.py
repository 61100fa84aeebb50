"""Arguments: makes what a handler's function gets for one message, as its annotations ask.

Put together once, at start; a handler that takes one thing gets it by one call. It knows no hooks, no retries and no
outcomes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from framework.declare import ConsumerSpec
from framework.declare.arguments import Argument
from framework.declare.decoding import Decoder
from framework.model.delivery import Delivery
from framework.model.message import Message
from framework.services.call.resources import Scope, Values
from framework.services.call.undecodable import Undecodable

Value = Callable[[Message, Delivery | None], object]


def invocation_of(spec: ConsumerSpec, undecodable: Undecodable, values: Values) -> Callable[..., Any]:
    """The function with its arguments filled in, in one call where it takes one."""
    function = spec.function
    scope = scope_of(spec, values)
    if scope:
        return _scoped(spec, scope, [value_of(each, undecodable, values) for each in spec.arguments])
    by_place = [value_of(each, undecodable, values) for each in spec.arguments if not each.by_name]
    by_name = [(each.name, value_of(each, undecodable, values)) for each in spec.arguments if each.by_name]
    if by_name:
        return lambda message, delivery=None: function(
            *[value(message, delivery) for value in by_place],
            **{name: value(message, delivery) for name, value in by_name},
        )
    first = spec.arguments[0]
    if len(by_place) == 1 and first.wants == "message":
        return lambda message, _=None: function(message)
    beside = " ".join([each.wants for each in spec.arguments[1:]])
    if first.decode is not None and beside in {"", "message", "delivery"}:
        return _without_calls(function, first.decode, undecodable, beside)
    if len(by_place) == 2:
        one, two = by_place
        return lambda message, delivery=None: function(one(message, delivery), two(message, delivery))
    return lambda message, delivery=None: function(*[value(message, delivery) for value in by_place])


def _without_calls(
    function: Callable[..., Any], decode: Decoder, undecodable: Undecodable, beside: str
) -> Callable[..., Any]:
    """The same for a body, alone or with one more, without a call per argument."""
    made, errors, refused = decode.convert, decode.errors, decode.refused

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

    return {"": alone, "message": with_message, "delivery": with_delivery}[beside]


def scope_of(spec: ConsumerSpec, values: Values) -> Scope:
    return Scope([each.resource for each in spec.arguments if each.resource is not None], values)


def _scoped(spec: ConsumerSpec, scope: Scope, fill: Sequence[Value]) -> Callable[[Message, Delivery | None], Any]:
    """The same with resources opened around it, once the body has been read."""
    around = scope.around if spec.is_async else scope.around_at_once

    def invoke(message: Message, delivery: Delivery | None = None) -> object:
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
