"""Plugins that hold something around a handler's run, and how a handler is run with them, for the tests of that."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import replace

import pytest

from framework.declare import ConsumerSpec
from framework.declare.arguments import PLAIN
from framework.hooks import hookimpl
from framework.hooks.host import PluginHost
from framework.model.delivery import Delivery
from framework.model.message import Message
from framework.services.call.deliver import DeliveryHooks, Rules, call_for, judging_for
from framework.services.call.publishing import Means
from tests.services.parts import LoopClock, messages_from, play

MESSAGES = messages_from(7, 4)
WHO: ContextVar[str] = ContextVar("who", default="nobody")
both = pytest.mark.parametrize("is_async", [False, True])


class Noting:
    """A plugin that notes how its context is entered and left."""

    def __init__(self, name: str, notes: list[str], **raises: Exception | type[BaseException]) -> None:
        self._name, self._notes, self._raises = name, notes, raises

    @hookimpl
    @contextmanager
    def around_consume(self, delivery: Delivery) -> Iterator[None]:
        self._notes.append(f"{self._name} enters {delivery.message.queue_offset}")
        if "entering" in self._raises:
            raise self._raises["entering"]
        try:
            yield
        except Exception as error:
            self._notes.append(f"{self._name} leaves {type(error).__name__}")
            if "swallows" not in self._raises:
                raise
        else:
            self._notes.append(f"{self._name} leaves")
        if "leaving" in self._raises:
            raise self._raises["leaving"]


class Async:
    """The same for handlers that are awaited only."""

    def __init__(self, notes: list[str]) -> None:
        self._notes = notes

    @hookimpl
    @asynccontextmanager
    async def around_consume(self, delivery: Delivery) -> AsyncIterator[None]:
        await asyncio.sleep(0.01)
        self._notes.append("async enters")
        token = WHO.set(delivery.group)
        yield
        WHO.reset(token)
        self._notes.append("async leaves")


def host_of(**plugins: object) -> PluginHost:
    return PluginHost(objects=plugins, discover=list)


def run(
    host: PluginHost,
    act: Callable[[Message], object],
    *,
    is_async: bool,
    rules: Rules | None = None,
) -> tuple[object, list[Message]]:
    """What became of one message, and what the handler was given."""
    given: list[Message] = []

    def function(message: Message) -> object:
        given.append(message)
        return act(message)

    async def coroutine(message: Message) -> object:
        await asyncio.sleep(1)
        return function(message)

    async def story() -> object:
        consumer = spec(coroutine if is_async else function, is_async=is_async)
        call = call_for(consumer, hooks_of(host), LoopClock(), rules)
        judged = judging_for(consumer, hooks_of(host), LoopClock(), rules or Rules(), Means())
        try:
            result = call(MESSAGES[0])
            value = await result if is_async else result
        except Exception as error:  # noqa: BLE001 - border: the handler's
            value = error
        return judged(MESSAGES[0], value)

    return play(story), given


def hooks_of(host: PluginHost) -> DeliveryHooks:
    return DeliveryHooks(host.calls.before, host.calls.after, host.calls.around)


def spec(function: Callable[..., object], *, is_async: bool, batch: int = 0, orderly: bool = False) -> ConsumerSpec:
    return ConsumerSpec(
        topic="orders", group="billing", tags="*", orderly=orderly, function=function, name="handler", place="here:1",
        is_async=is_async, batch=batch, arguments=(replace(PLAIN[0], many=list if batch else None),),
    )  # fmt: skip


def fail(_: Message) -> None:
    raise ValueError("no such order")
