"""Work: what a request, or all that is done in one turn of the loop, may cost. It is counted before it is paid.

A step is about a microsecond: a comparison, half a KiB that is read and checked, some properties that are taken apart.
What would be over waits for the next turn or the next request, or is refused with the limit's name.
"""

from __future__ import annotations

from framework.broker.answers import Refusal
from framework.model.sql92 import Expression
from framework.wire.codes import RequestCode, ResponseCode
from framework.wire.command import RemotingCommand

STEPS_MAX = 6_000
"""Of one request, or one turn: some milliseconds, for a hundred connections may each have one before it is our turn."""
_MESSAGE_STEPS = 3  # to fetch one, however small
_READ_BYTES_A_STEP = 512  # read and checked
_TAKEN_APART_A_STEP = 64  # bytes of properties
_SEARCHED_A_STEP = 256  # bytes of a text that is looked through

_MESSAGES = frozenset(
    {
        RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE,
        RequestCode.SEND_REPLY_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2,
    }
)  # fmt: skip


class Work:
    """How many steps are left."""

    __slots__ = ("left",)

    def __init__(self, steps: int = STEPS_MAX) -> None:
        self.left = steps

    def take(self, steps: int) -> None:
        """Count what is about to be done; the last that is begun may take more than is left."""
        self.left -= steps


def reading(size: int) -> int:
    """Steps to read a message of so many bytes."""
    return _MESSAGE_STEPS + size // _READ_BYTES_A_STEP


def asking(condition: Expression, size: int) -> int:
    """Steps to take properties of so many bytes apart, and to ask the condition of them."""
    return condition.nodes + size // _TAKEN_APART_A_STEP + condition.searches * (size // _SEARCHED_A_STEP)


def check_values(command: RemotingCommand, most: int) -> None:
    """Refuse (2) a body of more values than a turn can take apart: each makes an object, and many make an entry.

    A body has no more values than bytes, and bodies of messages are not taken apart.
    """
    body = command.body
    if len(body) <= most or command.code in _MESSAGES:
        return
    values = body.count(b",") + body.count(b"{") + body.count(b"[")
    if values > most:
        raise Refusal(ResponseCode.SYSTEM_BUSY, f"[OVERLOAD] a request of {values} values, {most} at most")
