"""Sends what a handler returns as the reply to its request, before its message is settled.

A reply that does not arrive is no failure of the message: whoever asked waits for seconds, and a retry comes later.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from framework.model.answers import understood
from framework.model.message import Message, body_of
from framework.model.outcome import OUTCOMES, Ack

Reply = Callable[[Message, bytes], Awaitable[object]]


async def replied(answer: object, request: Message, reply: Reply) -> object:
    """What the handler's answer comes to: itself, or success once the reply was sent or given up."""
    answer = understood(answer)
    if answer is None or isinstance(answer, (*OUTCOMES, Exception)):
        return answer
    await reply(request, answer.body if isinstance(answer, Message) else body_of(answer))
    return Ack()
