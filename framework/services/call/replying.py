"""Sends what a handler returns as the reply to its request, before its message is settled.

A reply that does not arrive is no failure of the message: whoever asked waits for seconds, and a retry comes later.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from framework.declare.encoding import json_of
from framework.model.answers import understood
from framework.model.message import Message
from framework.model.outcome import OUTCOMES, Ack

Reply = Callable[[Message, bytes], Awaitable[object]]


async def replied(answer: object, request: Message, reply: Reply) -> object:
    """What the handler's answer comes to: itself, or success once the reply was sent or given up."""
    answer = understood(answer)
    if answer is None or isinstance(answer, (*OUTCOMES, Exception)):
        return answer
    await reply(request, body_of(answer))
    return Ack()


def body_of(answer: object) -> bytes:
    """The body that an answer is. Raises TypeError for what is none."""
    if isinstance(answer, Message):
        return answer.body
    if isinstance(answer, str):
        return answer.encode()
    return answer if isinstance(answer, bytes) else json_of(answer)
