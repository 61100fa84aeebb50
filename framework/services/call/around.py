"""What `around_consume` puts around a handler's run: contexts of plugins, the first one in calling order outermost.

They are entered where the handler runs, so that a context variable set there is the handler's, too, and left in the
reverse order with what became of it. One that a batch's messages are given is held for each of them around the one run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias, cast

from framework.core.results import Result, explicit
from framework.hooks.contexts import Around, Context
from framework.hooks.verdict import NOT_DONE, NotDone
from framework.model.delivery import Delivery
from framework.model.message import Message
from framework.model.outcome import RetryLater

Invoke: TypeAlias = Callable[[Message, Delivery], Any]
Held: TypeAlias = list[tuple[Around, Context]]


def surrounded(invoke: Invoke, arounds: Sequence[Around], *, is_awaited: bool, is_explicit: bool) -> Invoke:
    """The same call with every plugin's context around it."""
    for each in reversed(arounds):
        invoke = _awaited(invoke, each, is_explicit) if is_awaited else _plain(invoke, each, is_explicit)
    return invoke


def _awaited(invoke: Invoke, around: Around, is_explicit: bool) -> Invoke:
    async def call(message: Message, delivery: Delivery) -> object:
        context = await around.enter_awaited(delivery)
        if context is None or isinstance(context, RetryLater):
            return context or await cast("Awaitable[object]", invoke(message, delivery))
        try:
            value: object = await invoke(message, delivery)
        except BaseException as error:
            await around.leave_awaited(context, error)
            raise
        unfinished = unfinished_by(value, is_explicit=is_explicit)
        again = await around.leave_awaited(context, unfinished)
        return value if again is None or unfinished is not None else again

    return call


def _plain(invoke: Invoke, around: Around, is_explicit: bool) -> Invoke:
    def call(message: Message, delivery: Delivery) -> object:
        context = around.enter(delivery)
        if context is None or isinstance(context, RetryLater):
            return context or cast("object", invoke(message, delivery))
        try:
            value: object = invoke(message, delivery)
        except BaseException as error:
            around.leave(context, error)
            raise
        unfinished = unfinished_by(value, is_explicit=is_explicit)
        again = around.leave(context, unfinished)
        return value if again is None or unfinished is not None else again

    return call


def unfinished_by(value: object, *, is_explicit: bool) -> Exception | None:
    """What contexts are left with: None where the handler has done its work."""
    if isinstance(value, Exception):
        return value
    if is_explicit:
        value = explicit(value)
        if isinstance(value, Result):
            value = value.outcome
    return NotDone(value) if isinstance(value, NOT_DONE) else None


# Of batches: one message's contexts


def entered(arounds: Sequence[Around], delivery: Delivery, held: Held) -> RetryLater | None:
    """Enter them all and note them in `held`, or answer why the message is not to be handled now."""
    for around in arounds:
        context = around.enter(delivery)
        if isinstance(context, RetryLater):
            return context
        if context is not None:
            held.append((around, context))
    return None


def left(held: Held, value: object, error: BaseException | None, *, is_explicit: bool) -> object:
    """Leave them all; what comes back is the message's result."""
    while held:
        around, context = held.pop()
        unfinished = error or unfinished_by(value, is_explicit=is_explicit)
        again = around.leave(context, unfinished)
        if again is not None and unfinished is None:
            value = again
    return value


async def entered_awaited(arounds: Sequence[Around], delivery: Delivery, held: Held) -> RetryLater | None:
    for around in arounds:
        context = await around.enter_awaited(delivery)
        if isinstance(context, RetryLater):
            return context
        if context is not None:
            held.append((around, context))
    return None


async def left_awaited(held: Held, value: object, error: BaseException | None, *, is_explicit: bool) -> object:
    while held:
        around, context = held.pop()
        unfinished = error or unfinished_by(value, is_explicit=is_explicit)
        again = await around.leave_awaited(context, unfinished)
        if again is not None and unfinished is None:
            value = again
    return value
