"""What `around_consume` puts around a handler's call: contexts of plugins, the first one in calling order outermost.

They are entered where the handler runs, so the handler sees the context variables that they set. They are left in the
reverse order, with the handler's result. In a batch each message has its contexts, held around the one call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from framework.core.results import Result, explicit
from framework.hooks.contexts import Around, Context, run_sync
from framework.hooks.verdict import NOT_DONE, NotDone, NothingFor
from framework.model.answers import understood
from framework.model.delivery import Delivery
from framework.model.message import Message
from framework.model.outcome import RetryLater

Invoke: TypeAlias = Callable[[Message, Delivery | None], Any]
Begin: TypeAlias = Callable[[Message], Delivery]
Values: TypeAlias = list[object] | dict[int, object]
"""What became of each message of a run, by its number."""
MANY = 1 << 30
"""More messages than a pull has."""


class OpenContexts:
    """The contexts around one run. With `is_async` false nothing is awaited, and `run_sync` may run its methods."""

    __slots__ = ("_arounds", "_is_async", "_is_explicit", "_open")

    def __init__(self, arounds: Sequence[Around], is_async: bool, is_explicit: bool) -> None:
        self._arounds, self._is_async, self._is_explicit = arounds, is_async, is_explicit
        self._open: list[tuple[int, Around, Context]] = []

    async def enter(
        self, delivery: Delivery, at: int = 0, first: int = 0, context: Context | RetryLater | None = None
    ) -> RetryLater | None:
        """Enter all for message number `at` of the run, or answer why it is not to be handled now. Those before `first`
        have answered nothing already, and that one this `context`.
        """
        for around in self._arounds[first:]:
            if context is None:
                context = around.begin(delivery)
            if isinstance(context, NothingFor):
                context = None
            if context is not None and not isinstance(context, RetryLater):
                context = await around.enter(context, self._is_async)
            if isinstance(context, RetryLater):
                return context
            if context is not None:
                self._open.append((at, around, context))
                context = None
        return None

    async def leave(self, values: Values, error: BaseException | None = None, at: int = 0) -> None:
        """Leave those of message `at` and all behind it, the last one first: with the error, or what its message's
        result in `values` says. A context that wants its message again puts that in the result's place.
        """
        while self._open and self._open[-1][0] >= at:
            number, around, context = self._open.pop()
            unfinished = error
            if error is None:
                unfinished = unfinished_by(values[number], is_explicit=self._is_explicit)
            try:
                again = await around.leave(context, unfinished, self._is_async)
            except BaseException as ours:
                await self.leave(values, ours, at)
                raise
            if again is not None and unfinished is None:
                values[number] = again


def surrounded(
    invoke: Invoke, bare: Callable[[Message], Any], arounds: Sequence[Around], begin: Begin, *, is_async: bool,
    is_explicit: bool,
) -> Callable[..., Any]:  # fmt: skip
    """The same call with every plugin's context around it. Most have none, as where few traces are kept: these pay for
    the question alone, and where all plugins answered for the next messages of the pull, too, not even for that:
    `bare` is then the call. The delivery is made by `begin` where whoever calls has none.
    """

    async def within(message: Message, delivery: Delivery, first: int, context: Context | RetryLater) -> object:
        contexts = OpenContexts(arounds, is_async, is_explicit)
        try:
            value: object = await contexts.enter(delivery, 0, first, context)
            if value is None:
                value = invoke(message, delivery)
                if is_async:
                    value = await value  # type: ignore[misc]  # of an async handler
        except BaseException as error:
            await contexts.leave([None], error)
            raise
        values: Values = [value]
        await contexts.leave(values)
        return values[0]

    def call(message: Message, delivery: Delivery | None = None) -> object:
        pull = message._source  # noqa: SLF001 - a property would cost what this is to save
        if pull.unsurrounded > 0:
            pull.unsurrounded -= 1  # one more or less, where threads share it
            return bare(message) if delivery is None else invoke(message, delivery)
        delivery = begin(message) if delivery is None else delivery
        least = MANY
        for number, around in enumerate(arounds):
            context = around.begin(delivery)
            if isinstance(context, NothingFor):
                least = min(least, context.messages)
            elif context is None:
                least = 1
            else:
                inside = within(message, delivery, number, context)
                return inside if is_async else run_sync(inside)
        if least > 1:
            pull.unsurrounded = least - 1
        return invoke(message, delivery)

    return call


def unfinished_by(value: object, *, is_explicit: bool) -> Exception | None:
    """What contexts are left with: None where the handler has done its work."""
    value = understood(value)
    if isinstance(value, Exception):
        return value
    if is_explicit:
        value = explicit(value)
        if isinstance(value, Result):
            value = value.outcome
    return NotDone(value) if isinstance(value, NOT_DONE) else None
