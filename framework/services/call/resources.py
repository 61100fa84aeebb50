"""Resources while an application runs: the application's own are opened once, a message's around each call.

What follows a `yield` is run in the reverse order of opening. It knows no group, no queue and no offset.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    ExitStack,
    asynccontextmanager,
    contextmanager,
)
from types import TracebackType
from typing import Any, TypeAlias

import structlog

from framework.declare.resources import APPLICATION, Resource, in_order
from framework.errors import ConfigurationError
from framework.hooks.theirs import theirs, theirs_awaited

log = structlog.get_logger()

AnyResource: TypeAlias = Resource[..., Any]
Values: TypeAlias = Mapping[AnyResource, object]
Given: TypeAlias = Mapping[Any, object]


class Resources:
    """The application's own resources, and their values while it runs."""

    def __init__(self, asked: Iterable[AnyResource], app: object = None) -> None:
        self._order = [each for each in in_order(asked) if each.scope == "app" and each is not APPLICATION]
        self._open: list[tuple[AnyResource, AsyncExitStack]] = []
        self.values: dict[AnyResource, object] = {APPLICATION: app}

    async def open(self) -> None:
        """Open all, each behind what it needs. Raises ConfigurationError for the first that cannot be opened."""
        for each in self._order:
            stack = AsyncExitStack()
            try:
                self.values[each] = await _enter(stack, each, self.values, {})
            except Exception as error:
                raise ConfigurationError(
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

    def __init__(self, asked: Iterable[AnyResource], values: Values) -> None:
        self._order = [each for each in in_order(asked) if each.scope == "message"]
        self._values = values

    def __bool__(self) -> bool:
        return bool(self._order)

    async def around(self, call: Callable[[Values], Awaitable[object]], given: Given) -> object:
        """Call with all of them open. `given` are the message and its delivery, by their types."""
        result: object = None
        failed: list[BaseException] = []
        async with AsyncExitStack() as stack:
            try:
                made = dict(self._values)
                for each in self._order:
                    made[each] = await _enter(stack, each, made, given)
                result = await call(made)
            except BaseException as error:
                failed.append(error)
                raise
        for failure in failed:
            raise failure  # a teardown that swallows it does not make a success of it
        return result

    def around_at_once(self, call: Callable[[Values], object], given: Given) -> object:
        result: object = None
        failed: list[BaseException] = []
        with ExitStack() as stack:
            try:
                made = dict(self._values)
                for each in self._order:
                    made[each] = _enter_at_once(stack, each, made, given)
                result = call(made)
            except BaseException as error:
                failed.append(error)
                raise
        for failure in failed:
            raise failure
        return result


async def _enter(stack: AsyncExitStack, each: AnyResource, made: Values, given: Given) -> object:
    arguments = _arguments(each, made, given)
    function: Callable[..., Any] = each.function
    try:
        if not each.yields:
            return await function(**arguments) if each.is_async else function(**arguments)
        if each.is_async:
            opening: Callable[..., AsyncIterator[object]] = function
            return await stack.enter_async_context(_Awaited(asynccontextmanager(opening)(**arguments)))
        return stack.enter_context(_Plain(contextmanager(function)(**arguments)))
    except BaseException as error:  # noqa: BLE001 - border: the user's function
        raise theirs_awaited(error) from error.__cause__


def _enter_at_once(stack: ExitStack, each: AnyResource, made: Values, given: Given) -> object:
    arguments = _arguments(each, made, given)
    function: Callable[..., Any] = each.function
    try:
        return (
            stack.enter_context(_Plain(contextmanager(function)(**arguments))) if each.yields else function(**arguments)
        )
    except BaseException as error:  # noqa: BLE001 - border: the user's function
        raise theirs(error) from error.__cause__


class _Plain:
    """A resource's context, of which nothing comes when it is left but an Exception, or what it is left with."""

    def __init__(self, inner: AbstractContextManager[object]) -> None:
        self._inner = inner

    def __enter__(self) -> object:
        return self._inner.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, given: BaseException | None, at: TracebackType | None
    ) -> bool | None:
        try:
            return self._inner.__exit__(kind, given, at)
        except BaseException as error:
            if error is given:
                raise
            raise theirs(error) from error.__cause__


class _Awaited:
    def __init__(self, inner: AbstractAsyncContextManager[object]) -> None:
        self._inner = inner

    async def __aenter__(self) -> object:
        return await self._inner.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, given: BaseException | None, at: TracebackType | None
    ) -> bool | None:
        try:
            return await self._inner.__aexit__(kind, given, at)
        except BaseException as error:
            if error is given:
                raise
            raise theirs_awaited(error) from error.__cause__


def _arguments(each: AnyResource, made: Values, given: Given) -> dict[str, object]:
    return {name: made[need] if isinstance(need, Resource) else given[need] for name, need in each.needs.items()}
