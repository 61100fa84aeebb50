"""What stands between a message and its handler: nothing, unless somebody asks for more.

`calls_for` puts the wrapper together once, at start, from what is implemented: a handler that wants the Delivery, hooks
before and after, an observer of events. With none of them it is the user's function itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from framework.core.retry import outcome_of
from framework.declare import ConsumerSpec
from framework.model.delivery import Delivery
from framework.model.message import Message
from framework.model.outcome import Drop, Outcome, RetryLater
from framework.ports import Clock

Before = Callable[[Delivery], Drop | RetryLater | None]
After = Callable[[Delivery, Outcome, float], None]


@dataclass(frozen=True, slots=True)
class Hooks:
    """What plugins and observers implement, in calling order; each contains its own failures."""

    before: Sequence[Before] = ()
    after: Sequence[After] = ()

    def __bool__(self) -> bool:
        return bool(self.before or self.after)


def call_for(spec: ConsumerSpec, hooks: Hooks, clock: Clock) -> Callable[[Message], Any]:
    """The callable that workers run: a coroutine function for an async handler, a plain one for a sync one."""
    if not hooks and spec.wants == "message":
        return spec.function
    return _async_call(spec, hooks, clock) if spec.is_async else _sync_call(spec, hooks, clock)


def _async_call(spec: ConsumerSpec, hooks: Hooks, clock: Clock) -> Callable[[Message], Awaitable[object]]:
    awaited = cast("Callable[[object], Awaitable[object]]", spec.function)
    group, wants_delivery = spec.group, spec.wants == "delivery"
    befores, afters, monotonic = tuple(hooks.before), tuple(hooks.after), clock.monotonic

    async def call(message: Message) -> object:
        delivery = Delivery(group, message, monotonic())
        result: object = _asked(befores, delivery)
        if result is None:
            try:
                result = await awaited(delivery if wants_delivery else message)
            except Exception as error:
                if not afters:
                    raise
                result = error
        return _told(afters, delivery, result, monotonic)

    return call


def _sync_call(spec: ConsumerSpec, hooks: Hooks, clock: Clock) -> Callable[[Message], object]:
    function, group, wants_delivery = spec.function, spec.group, spec.wants == "delivery"
    befores, afters, monotonic = tuple(hooks.before), tuple(hooks.after), clock.monotonic

    def call(message: Message) -> object:
        delivery = Delivery(group, message, monotonic())
        result: object = _asked(befores, delivery)
        if result is None:
            try:
                result = function(delivery if wants_delivery else message)
            except Exception as error:
                if not afters:
                    raise
                result = error
        return _told(afters, delivery, result, monotonic)

    return call


def _asked(befores: Sequence[Before], delivery: Delivery) -> Drop | RetryLater | None:
    """The first verdict of a hook that has one; the handler is then not called."""
    for before in befores:
        verdict = before(delivery)
        if verdict is not None:
            return verdict
    return None


def _told(afters: Sequence[After], delivery: Delivery, result: object, monotonic: Callable[[], float]) -> object:
    if afters:
        outcome, elapsed_ms = outcome_of(result), (monotonic() - delivery.started) * 1000
        for after in reversed(afters):
            after(delivery, outcome, elapsed_ms)
    return result
