"""What stands between a message and its handler: nothing, unless somebody asks for more.

`call_for` puts the call together once, at start, from what the handler takes and what is implemented: bodies that are
decoded, hooks before and after, an observer of events, what was declared about failures. With none of them it is the
user's function itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from framework.core.expiry import held
from framework.core.results import HOLDS, Result, by_policy, explicit, kind_of, result_of
from framework.declare import ConsumerSpec
from framework.declare.arguments import PLAIN, Argument
from framework.errors import BodyUndecodable
from framework.model.delivery import Delivery
from framework.model.message import Message
from framework.model.outcome import Ack, Drop, Kind, Outcome, RetryLater
from framework.model.retrying import Retry
from framework.ports import Clock
from framework.services.once import Once
from framework.services.publishing import InThread, Means, published
from framework.services.resources import Scope, Values
from framework.services.undecodable import Undecodable
from framework.services.work import RUNNING

Before = Callable[[Delivery], Drop | RetryLater | None]
After = Callable[[Delivery, Outcome, float, Kind], None]
Value = Callable[[Message, Delivery | None], object]


@dataclass(frozen=True, slots=True)
class Hooks:
    """What plugins and observers implement, in calling order; each contains its own failures."""

    before: Sequence[Before] = ()
    after: Sequence[After] = ()

    def __bool__(self) -> bool:
        return bool(self.before or self.after)


@dataclass(frozen=True, slots=True)
class Rules:
    """What the group's settings say about the ends of its handlers."""

    undecodable: Undecodable = field(default_factory=lambda: Undecodable("", "dead_letter", 0))
    explicit_ack: bool = False


def call_for(
    spec: ConsumerSpec,
    hooks: Hooks,
    clock: Clock,
    rules: Rules | None = None,
    means: Means | None = None,
    once: Once | None = None,
) -> Callable[[Message], Any]:
    """The callable that workers run: a coroutine function where it is awaited, a plain one for a sync handler."""
    assert not spec.batch, "a batch handler is called with a batch"
    rules = rules or Rules()
    means = means or Means()
    invoke, is_async = _invocation(spec, rules.undecodable, means.values), is_awaited(spec)
    if spec.publishes:
        invoke = _publishing(spec, invoke, means, is_explicit=rules.explicit_ack)
    if spec.once_ms:
        assert once is not None, "somebody must remember what was handled"
        awaited = invoke if spec.is_async or spec.publishes else _in_thread(invoke, means.in_thread)
        return _async_once(awaited, Ends(spec, hooks, clock, rules), once, spec)
    if hooks or rules.explicit_ack or spec.retry is not None:
        ends = Ends(spec, hooks, clock, rules)
        return _async_watched(invoke, ends) if is_async else _sync_watched(invoke, ends)
    wants = tuple((each.wants, each.by_name) for each in spec.arguments)
    if wants == tuple((each.wants, each.by_name) for each in PLAIN) and not spec.publishes:
        return spec.function
    needs_delivery = any(each.wants in {"delivery", "resource"} for each in spec.arguments)
    begin = Ends(spec, hooks, clock, rules).begin if needs_delivery else _no_delivery
    return _async_bound(invoke, begin) if is_async else _sync_bound(invoke, begin)


def is_awaited(spec: ConsumerSpec) -> bool:
    """Whether the call is a coroutine function: a plain handler that publishes, or has its repeats
    dropped, is awaited in its thread.
    """
    return spec.is_async or bool(spec.publishes or spec.once_ms)


def _publishing(
    spec: ConsumerSpec, invoke: Callable[..., Any], means: Means, *, is_explicit: bool
) -> Callable[[Message, Delivery | None], Any]:
    async def publish(message: Message, delivery: Delivery | None) -> object:
        if spec.is_async:
            answer: object = await invoke(message, delivery)
        else:
            answer = await means.in_thread(lambda: invoke(message, delivery))
        result = await published(answer, spec.publishes, means.send)
        return None if isinstance(result, Ack) and not is_explicit else result

    return publish


def _in_thread(invoke: Callable[..., Any], in_thread: InThread) -> Callable[[Message, Delivery | None], Any]:
    return lambda message, delivery: in_thread(lambda: invoke(message, delivery))


def _async_once(invoke: Callable[..., Any], ends: Ends, once: Once, spec: ConsumerSpec) -> Callable[[Message], Any]:
    key_of, keep_ms = None if spec.by_key else spec.key, spec.once_ms

    async def handle(message: Message, delivery: Delivery) -> object:
        try:
            value = await invoke(message, delivery)
        except Exception as error:  # noqa: BLE001 - border: the handler's
            value = error
        return ends.judged(delivery, value)

    async def call(message: Message) -> object:
        delivery = ends.begin(message)
        value: object = ends.verdict(delivery)
        if value is None:
            try:
                value = await once.around(delivery, handle, key_of, keep_ms)
            except asyncio.CancelledError:
                if delivery.is_expired:
                    ends.told(delivery, None)
                raise
        return ends.told(delivery, value)

    return call


def _no_delivery(_: Message) -> None:
    return None


def _async_bound(invoke: Callable[..., Any], begin: Callable[[Message], Delivery | None]) -> Callable[[Message], Any]:
    async def call(message: Message) -> object:
        return await cast("Awaitable[object]", invoke(message, begin(message)))

    return call


def _sync_bound(invoke: Callable[..., Any], begin: Callable[[Message], Delivery | None]) -> Callable[[Message], Any]:
    def call(message: Message) -> object:
        return cast("object", invoke(message, begin(message)))

    return call


def _async_watched(invoke: Callable[..., Any], ends: Ends) -> Callable[[Message], Any]:
    async def call(message: Message) -> object:
        delivery = ends.begin(message)
        value: object = ends.verdict(delivery)
        if value is None:
            try:
                value = await invoke(message, delivery)
            except Exception as error:  # noqa: BLE001 - border: the handler's
                value = error
            except asyncio.CancelledError:
                if delivery.is_expired:
                    ends.told(delivery, None)
                raise
            value = ends.judged(delivery, value)
        return ends.told(delivery, value)

    return call


def _sync_watched(invoke: Callable[..., Any], ends: Ends) -> Callable[[Message], Any]:
    def call(message: Message) -> object:
        delivery = ends.begin(message)
        value: object = ends.verdict(delivery)
        if value is None:
            try:
                value = invoke(message, delivery)
            except Exception as error:  # noqa: BLE001 - border: the handler's
                value = error
            value = ends.judged(delivery, value)
        return ends.told(delivery, value)

    return call


class Ends:
    """How one handler's deliveries begin and end, where somebody asks. Shared by threads; it keeps nothing."""

    __slots__ = ("_afters", "_befores", "_clock", "_explicit", "_group", "_is_orderly", "_retry", "_undecodable")

    def __init__(self, spec: ConsumerSpec, hooks: Hooks, clock: Clock, rules: Rules) -> None:
        self._group, self._clock, self._is_orderly = spec.group, clock, spec.orderly
        self._befores, self._afters = tuple(hooks.before), tuple(reversed(hooks.after))
        self._undecodable, self._explicit = rules.undecodable, rules.explicit_ack
        self._retry: Retry | None = spec.retry

    def begin(self, message: Message, at: int = 0) -> Delivery:
        """Of the message that is run, or of number `at` of several."""
        now, slot = self._clock.monotonic, RUNNING.get()
        return Delivery(self._group, message, now(), held(slot, now), None if slot is None else slot.epoch(at))

    def verdict(self, delivery: Delivery) -> Drop | RetryLater | None:
        """The first verdict of a hook that has one; the handler is then not called."""
        for before in self._befores:
            verdict = before(delivery)
            if verdict is not None:
                return verdict
        return None

    def judged(self, delivery: Delivery, value: object) -> object:
        """What the handler's end comes to: None for plain success, an error that holds the queue, or a result."""
        message = delivery.message
        if isinstance(value, BodyUndecodable):
            return self._undecodable.judged(message, value)
        if isinstance(value, HOLDS):
            return value
        if self._explicit:
            value = explicit(value)
        if value is not None and self._retry is not None:
            age_ms = max(self._clock.now_ms() - message.born_ms, 0)
            value = by_policy(self._retry, value, message.attempt, age_ms)
        return value

    def told(self, delivery: Delivery, value: object) -> object:
        """Tell whoever listens, innermost first. A message that is held has not ended, and nobody is told. Of one that
        expired they are told what was decided, when its handler ends at last.
        """
        if self._afters and not isinstance(value, HOLDS):
            elapsed_ms = (self._clock.monotonic() - delivery.started) * 1000
            verdict = None if delivery.running is None else delivery.running.verdict
            result = result_of(value) if verdict is None else Result(verdict, "timed_out")
            kind = kind_of(result, elapsed_ms) if self._is_orderly else result.kind
            for after in self._afters:
                after(delivery, result.outcome, elapsed_ms, kind)
        return value


# What the function is given


def _invocation(
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
    if len(by_place) == 1:
        (only,) = by_place
        return lambda message, delivery: function(only(message, delivery))
    return lambda message, delivery: function(*[value(message, delivery) for value in by_place])


def scope_of(spec: ConsumerSpec, values: Values) -> Scope:
    return Scope([each.resource for each in spec.arguments if each.resource is not None], values)


def _scoped(spec: ConsumerSpec, scope: Scope, fill: Sequence[Value]) -> Callable[[Message, Delivery | None], Any]:
    """The same with resources opened around it, once the body has been read."""
    around = scope.around if spec.is_async else scope.around_at_once

    def invoke(message: Message, delivery: Delivery | None) -> object:
        row = [value(message, delivery) for value in fill]
        given = {Message: message, Delivery: delivery}
        return around(lambda made: filled(spec, row, made), given)

    return invoke


def filled(spec: ConsumerSpec, row: Sequence[object], made: Values) -> Any:
    """The function called with these; what a call has opened takes the place of what was not open yet."""
    by_place: list[object] = []
    by_name: dict[str, object] = {}
    for argument, value in zip(spec.arguments, row, strict=True):
        given = value if argument.resource is None else made[argument.resource]
        if argument.by_name:
            by_name[argument.name] = given
        else:
            by_place.append(given)
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
