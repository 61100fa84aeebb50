"""Handing an administrator's question on to members of a group, and their answers back.

A member that says nothing is waited for no longer than the question allows; it keeps its connection, for it may be busy
with the very thing that was asked of it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from framework.broker.request import Answer, Answered, Relay, Request
from framework.errors import FrameworkError
from framework.wire.command import RemotingCommand

# The connection's own time-out, which would end it: long after ours, when heartbeats have shown that it lives.
_CHANNEL_TIMEOUT_MS = 600_000


Conclude = Callable[[Request, Callable[[], Answer]], None]
"""Act on the answer that the second makes."""


def relay(request: Request, word: Relay, conclude: Conclude) -> None:
    """Ask all at once; answer when the last one has, or when the time is over."""
    _Relaying(request, word, conclude).start()


class _Relaying:
    def __init__(self, request: Request, word: Relay, conclude: Conclude) -> None:
        self._request, self._conclude = request, conclude
        self._word = word
        self._answers: list[RemotingCommand | None] = [None] * len(word.asked)
        self._missing = len(word.asked)
        self._is_over = False

    def start(self) -> None:
        timer = self._request.node.timers.call_later(self._word.timeout_ms / 1000, self._end)
        self._timer = timer
        for i, (client, command) in enumerate(self._word.asked):
            try:
                answered = client.request_now(command, timeout_ms=_CHANNEL_TIMEOUT_MS)
            except FrameworkError:
                self._heard(i, None)
            else:
                answered.add_done_callback(partial(self._answered, i))
        if not self._word.asked:
            self._end()

    def _answered(self, number: int, answered: Answered) -> None:
        self._heard(number, _result(answered))

    def _heard(self, number: int, answer: RemotingCommand | None) -> None:
        self._answers[number] = answer
        self._missing -= 1
        if self._missing == 0:
            self._end()

    def _end(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._timer.cancel()
            self._conclude(self._request, partial(self._word.answer, self._answers))


def _result(answered: Answered) -> RemotingCommand | None:
    """The member's answer; None where its connection ended first."""
    if answered.cancelled() or answered.exception() is not None:
        return None
    return answered.result()
