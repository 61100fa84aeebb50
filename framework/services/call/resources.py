"""Resources while an application runs: the application's own are opened once, those of a message around each call.

What follows a `yield` runs in the reverse order of opening. It knows no group, no queue and no offset.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from types import TracebackType
from typing import Any, TypeAlias, cast

import structlog

from framework.declare.resources import APPLICATION, GIVEN, PUBLISHER, Resource, in_order
from framework.hooks.contexts import run_sync
from framework.hooks.failures import plugin_failure, plugin_failure_awaited
from framework.mistakes import ResourceFailed

log = structlog.get_logger()

AnyResource: TypeAlias = Resource[..., Any]
Values: TypeAlias = Mapping[AnyResource, object]
OfMessage: TypeAlias = Mapping[Any, object]


class Resources:
    """The application's own resources, and their values while it runs."""

    def __init__(self, wanted: Iterable[AnyResource], app: object = None) -> None:
        self._order = [each for each in in_order(wanted) if each.scope == "app" and each not in GIVEN]
        self._open: list[tuple[AnyResource, AsyncExitStack]] = []
        self.values: dict[AnyResource, object] = {APPLICATION: app, PUBLISHER: getattr(app, "publisher", None)}

    async def open(self) -> None:
        """Open all, each behind what it needs. Raises ConfigurationError for the first that cannot be opened."""
        for each in self._order:
            stack = AsyncExitStack()
            try:
                self.values[each] = await _enter(stack, each, self.values, {})
            except Exception as error:
                raise ResourceFailed(
                    f"resource {each.name!r} could not be opened: {type(error).__name__}: {error}", place=each.place
                ) from error
            self._open.append((each, stack))

    async def close(self, patience_ms: int) -> None:
        """Close what was opened, the last one first. What fails or takes too long is named, and hinders no other."""
        while self._open:
            each, stack = self._open.pop()
            self.values.pop(each)
            try:
                async with asyncio.timeout(patience_ms / 1000):
                    await stack.aclose()
            except Exception as error:  # border: the user's teardown
                log.exception("resource not closed", resource=each.name, at=each.place, reason=repr(error))


class Scope:
    """What one handler needs opened around each of its calls."""

    def __init__(self, wanted: Iterable[AnyResource], values: Values) -> None:
        self._order = [each for each in in_order(wanted) if each.scope == "message"]
        self._values = values

    def __bool__(self) -> bool:
        return bool(self._order)

    async def around(self, call: Callable[[Values], Any], of_message: OfMessage, *, is_async: bool = True) -> object:
        """Call with all of them open. `of_message`: the message and its delivery, by their types."""
        failed: list[BaseException] = []
        async with AsyncExitStack() as stack:
            try:
                made = dict(self._values)
                for each in self._order:
                    made[each] = await _enter(stack, each, made, of_message)
                result: object = call(made)
                return await cast("Awaitable[object]", result) if is_async else result
            except BaseException as error:
                failed.append(error)
                raise
        raise failed[0]  # a teardown that swallows it does not make a success of it

    def around_at_once(self, call: Callable[[Values], object], of_message: OfMessage) -> object:
        """The same around a plain handler, whose resources are plain, too."""
        return run_sync(self.around(call, of_message, is_async=False))


async def _enter(stack: AsyncExitStack, each: AnyResource, made: Values, of_message: OfMessage) -> object:
    """What the resource gives. Its setup and teardown raise an Exception, or what it is left with."""
    arguments = {
        name: made[need] if isinstance(need, Resource) else of_message[need] for name, need in each.needs.items()
    }
    function: Callable[..., Any] = each.function
    failure = plugin_failure_awaited if each.is_async else plugin_failure
    try:
        if not each.yields:
            return await function(**arguments) if each.is_async else function(**arguments)
        context: Any = (asynccontextmanager if each.is_async else contextmanager)(function)(**arguments)
        value: object = await context.__aenter__() if each.is_async else context.__enter__()
    except BaseException as error:  # noqa: BLE001 - border: the user's function
        raise failure(error) from error.__cause__

    async def leave(
        kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> bool | None:
        try:
            left: bool | None = (
                await context.__aexit__(kind, error, at) if each.is_async else context.__exit__(kind, error, at)
            )
        except BaseException as raised:
            if raised is error:
                raise
            raise failure(raised) from raised.__cause__
        return left

    stack.push_async_exit(leave)
    return value
