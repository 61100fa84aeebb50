"""A client as handlers see it, which keeps what it is told."""

from __future__ import annotations

from framework.wire.command import Command


class FakeClient:
    """One connection; compared by identity."""

    def __init__(self, peer: str = "127.0.0.1:50000") -> None:
        self.peer = peer
        self.sent: list[Command] = []
        self.answers: list[Command] = []
        self.closed: str | None = None

    def send(self, command: Command) -> None:
        self.sent.append(command)

    def answer(self, request: Command, answer: Command) -> None:
        if not request.is_one_way:
            self.answers.append(answer)

    def close(self, reason: str) -> None:
        self.closed = reason
