"""Sends what a handler returns, or replies with it, before its message is settled; only then has the handler succeeded.

A failed send is a retry of the message, whatever was declared about the handler's own exceptions: nothing is wrong with
the message. What was sent before the failure is sent again then.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from framework.client.producing.bodies import coded
from framework.errors import ConfigurationError, FrameworkError, shorten
from framework.mistakes import NotInCluster, WrongMoment
from framework.model.answers import understood
from framework.model.message import Message, body_of
from framework.model.outcome import OUTCOMES, Ack, RetryLater
from framework.model.sendable import check_message
from framework.ports import Workers
from framework.services.call.resources import Values

if TYPE_CHECKING:
    from framework.services.call.exits import ExitWatch

Send = Callable[[Message], Awaitable[object]]
Reply = Callable[[Message, bytes], Awaitable[object]]
Encode = Callable[[object], bytes]
OrderKey = Callable[[Any], str | None]


async def _nowhere(message: Message) -> None:
    raise WrongMoment(f"no producer for {message.topic} here")


async def _nobody(request: Message, body: bytes) -> None:
    raise WrongMoment(f"nobody to reply to {request.message_id} here")


@dataclass(frozen=True, slots=True)
class Means:
    """What an application's handlers work with beside their messages."""

    values: Values = field(default_factory=dict[Any, object])
    """Its own resources, while they are open."""
    send: Send = _nowhere
    workers: Workers | None = None
    """Threads for plain handlers that publish or reply, or whose repeats are dropped."""
    reply: Reply = _nobody
    ages: Callable[[str], int | None] | None = None
    """Broker -> the time by which to age its messages, as `services.ages` says; None: the clock's."""
    exits: ExitWatch | None = None
    """Where a parent counts which messages end processes."""


async def published(
    answer: object, topics: Sequence[str], send: Send, encode: Encode | None = None, order_key: OrderKey | None = None
) -> object:
    """What the handler's answer comes to: itself, or success once all that it returned is stored."""
    answer = understood(answer)
    if answer is None or isinstance(answer, (*OUTCOMES, Exception)):
        return answer
    messages = messages_of(answer, topics, encode, order_key)
    if len(messages) > 1:
        for message in messages:
            check_message(message)  # else each retry would send those before a wrong one again
    for message in messages:
        try:
            await send(message)
        except FrameworkError as error:
            if isinstance(error, ConfigurationError) and not isinstance(error, NotInCluster):
                raise  # the message cannot be sent as it is, now or later
            return RetryLater(reason=f"publishing to {message.topic} failed: {error}")
    return Ack()


async def replied(answer: object, request: Message, reply: Reply) -> object:
    """What the handler's answer comes to: itself, or success once the reply was sent or given up.

    A reply that does not arrive is no failure: whoever asked waits for seconds, and a retry comes later.
    """
    answer = understood(answer)
    if answer is None or isinstance(answer, (*OUTCOMES, Exception)):
        return answer
    await reply(request, answer.body if isinstance(answer, Message) else body_of(answer))
    return Ack()


def messages_of(
    answer: object, topics: Sequence[str], encode: Encode | None = None, order_key: OrderKey | None = None
) -> list[Message]:
    """The messages that an answer is. Raises ValueError or TypeError for what is none; `encode` is a codec's."""
    many = answer if isinstance(answer, list | tuple) and not hasattr(answer, "_fields") else [answer]
    return [_message(each, topics, encode, order_key) for each in many]


def _message(value: object, topics: Sequence[str], encode: Encode | None, order_key: OrderKey | None) -> Message:
    if isinstance(value, Message):
        if value.topic not in topics:
            raise ValueError(f"a message for {value.topic!r} was returned, but @publishes names {', '.join(topics)}")
        return value
    if isinstance(meant := understood(value), (*OUTCOMES, BaseException)):
        raise TypeError(f"a list to publish holds {shorten(meant)}; return an outcome alone, and raise an exception")
    if len(topics) > 1:
        raise ValueError(
            f"a {type(value).__name__} was returned, but @publishes names {', '.join(topics)}: "
            "return Message(topic, body), so that it is one of them"
        )
    body = value if encode is None else coded(topics[0], value, encode)
    return Message(topics[0], body, order_key=None if order_key is None else order_key(value))
