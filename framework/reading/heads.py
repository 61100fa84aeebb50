"""Heads: when a message was stored and where in its broker's log, which together tell it from any other.

A topic that was deleted and made again has other messages at the same offsets. The message is pulled with its body, for
brokers hand out no less.
"""

from __future__ import annotations

from typing import NamedTuple

from framework.errors import ProtocolError
from framework.model.queue import MessageQueue
from framework.wire import stored
from framework.wire.codes import RequestCode
from framework.wire.command import RemotingCommand
from framework.wire.exchanges import Exchange
from framework.wire.requests.pull import LITE_PULL, SUBSCRIPTION, pull_of, read_progress


class Head(NamedTuple):
    stored_ms: int
    place: int
    """Its offset in the broker's commit log."""


class HeadAt(Exchange[Head | None]):
    """Of the message at an offset; None where there is none, or what is there cannot be read."""

    def request(self) -> RemotingCommand:
        command = super().request()
        command.code = int(RequestCode.LITE_PULL_MESSAGE)
        return command


def head_at(queue: MessageQueue, offset: int, group: str) -> HeadAt:
    header = pull_of(group, queue, offset, 1, SUBSCRIPTION | LITE_PULL)

    def read(answer: RemotingCommand) -> Head | None:
        try:
            delta = read_progress(answer.fields)[3]
            found = stored.decode(answer.body, queue, offset_delta=delta)
        except ProtocolError:
            return None
        return next(
            (Head(each.stored_ms, each.commit_log_offset) for each in found if each.queue_offset == offset), None
        )

    return HeadAt(header, read)
