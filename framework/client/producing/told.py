"""Told: plugins hear of each message that an application sends, before and after, and may add properties to it.

A producer has none of this where no plugin implements a send hook. It knows no plugin: `hooks/calls.py` contains and
counts their calls.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from framework.client.outgoing import Outgoing, SendResult
from framework.client.producing.attempts import Attempts
from framework.core.statistics import Sends
from framework.errors import shorten
from framework.mistakes import MessageWrong
from framework.model.message import DELAY_LEVEL, KEYS, SHARDING_KEY, TAGS, UNIQUE_KEY, WAIT_STORE, Message
from framework.model.queue import MessageQueue
from framework.model.sendable import check_properties
from framework.wire import properties

if TYPE_CHECKING:
    from framework.hooks.calls import Calls

T = TypeVar("T")


# They decide where a message goes, when, and to whom: the sender's alone.
SENDERS = frozenset({DELAY_LEVEL, KEYS, SHARDING_KEY, TAGS, UNIQUE_KEY, WAIT_STORE})
KEPT_FREE = 1_024
"""Bytes of a message's properties that plugins leave to RocketMQ's own, such as the id and a transaction's marks."""


class SendHooks:
    """One an application. They run on the event loop."""

    def __init__(self, calls: Calls, sends: Sends | None = None) -> None:
        self._calls, self._sends = calls, sends

    def begun(self, message: Message) -> Message:
        """Call `before_send`; the message with what the plugins add, each of which sees what those before it added."""
        for each in self._calls.before_send:
            added = self._calls.contained(each, each.function, _shown(message))
            if added is not None:
                try:
                    message = _with(message, added)
                except BaseException as error:  # noqa: BLE001 - border: a hook's
                    self._calls.failed(each, error)
        return message

    def ended(
        self, outgoing: Outgoing, results: Sequence[SendResult], error: BaseException | None, seconds: float
    ) -> None:
        """Call `after_send` for each message of a request."""
        calls, elapsed_ms = self._calls, seconds * 1000
        if self._sends is not None:
            self._sends.ended(len(outgoing.messages), seconds, error)
        for index, message in enumerate(outgoing.messages):
            result = results[index] if results else None
            for each in calls.after_send:
                calls.contained(each, each.function, _shown(message), result, error, elapsed_ms)


def send_hooks(calls: Calls, sends: Sends | None = None) -> SendHooks | None:
    """None where no plugin implements one of them, and nobody wants to know how long sends take."""
    return SendHooks(calls, sends) if calls.before_send or calls.after_send or sends is not None else None


class ToldAttempts(Attempts):
    """A producer's attempts, of whose outcomes plugins hear."""

    def __init__(self, hooks: SendHooks, *places: Any, **options: Any) -> None:
        super().__init__(*places, **options)
        self._hooks = hooks

    async def deliver(self, outgoing: Outgoing, queue: MessageQueue | None, timeout_ms: int) -> list[SendResult]:
        return await self._told(outgoing, super().deliver(outgoing, queue, timeout_ms))

    async def one_way(self, outgoing: Outgoing, queue: MessageQueue | None, timeout_ms: int) -> None:
        await self._told(outgoing, super().one_way(outgoing, queue, timeout_ms))

    async def _told(self, outgoing: Outgoing, sending: Awaitable[T]) -> T:
        now = asyncio.get_running_loop().time
        began = now()
        try:
            stored = await sending
        except BaseException as error:
            self._hooks.ended(outgoing, (), error, now() - began)
            raise
        self._hooks.ended(outgoing, stored if isinstance(stored, list) else (), None, now() - began)
        return stored


def _shown(message: Message) -> Message:
    """For one plugin: what it writes into the properties changes neither the sender's message nor what others see."""
    return Message(message.topic, message.body, properties=message.properties)


def _with(message: Message, added: object) -> Message:
    """The message with these properties, unless it has them; raises for what could not be sent, or is the sender's."""
    if not isinstance(added, Mapping):
        raise TypeError(f"before_send answered {shorten(added)}; answer a mapping of properties to add, or nothing")
    given = message.properties
    more = {name: value for name, value in added.items() if name not in given}
    if not more:
        return message
    check_properties(message.topic, more)
    for name in more:
        if name in SENDERS:
            raise MessageWrong(f"message to {message.topic}: property {name} is the sender's to give")
    whole = {**given, **more}
    size = len(properties.encode(whole).encode())
    if size > properties.BYTES_MAX - KEPT_FREE:
        raise MessageWrong(f"message to {message.topic}: {size} bytes of properties leave too little room for others")
    return Message(message.topic, message.body, properties=whole)
