"""A client as handlers see it, which keeps what it is told."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from framework.errors import ConnectionLost
from framework.wire.command import RemotingCommand


class FakeAnswered:
    """What the client was asked; a test says what it answers."""

    def __init__(self, command: RemotingCommand) -> None:
        self.command = command
        self._callbacks: list[Callable[[Any], object]] = []
        self._answer: RemotingCommand | None = None
        self._error: BaseException | None = None

    def say(self, answer: RemotingCommand) -> None:
        self._answer = answer
        self._end()

    def fail(self, error: BaseException) -> None:
        self._error = error
        self._end()

    def add_done_callback(self, callback: Callable[[Any], object], /) -> None:
        self._callbacks.append(callback)

    def cancelled(self) -> bool:
        return False

    def exception(self) -> BaseException | None:
        return self._error

    def result(self) -> RemotingCommand:
        assert self._answer is not None
        return self._answer

    def _end(self) -> None:
        for callback in self._callbacks:
            callback(self)


class FakeClient:
    """One connection; compared by identity."""

    def __init__(self, peer: str = "127.0.0.1:50000") -> None:
        self.peer = peer
        self.sent: list[RemotingCommand] = []
        self.answers: list[RemotingCommand] = []
        self.asked: list[FakeAnswered] = []
        self.closed: str | None = None
        self.is_proven = False

    def send(self, command: RemotingCommand) -> None:
        self.sent.append(command)

    def answer(self, request: RemotingCommand, answer: RemotingCommand) -> None:
        if not request.is_one_way:
            self.answers.append(answer)

    def request_now(self, command: RemotingCommand, *, timeout_ms: int) -> FakeAnswered:
        if self.closed is not None:
            raise ConnectionLost(f"{self.peer}: {self.closed}")
        answered = FakeAnswered(command)
        self.asked.append(answered)
        return answered

    def close(self, reason: str) -> None:
        self.closed = reason

    @property
    def is_open(self) -> bool:
        return self.closed is None

    def prove(self) -> None:
        self.is_proven = True

    def attend(self, work: Generator[None, None, None]) -> None:
        """All its turns at once."""
        for _ in work:
            pass
