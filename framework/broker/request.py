"""One request, as its handler is given it: `handle(request) -> Answer`, a plain function."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, TypeVar

from framework.broker.answers import Answer, Client
from framework.broker.node import Node
from framework.wire.command import RemotingCommand
from framework.wire.fields import from_fields

H = TypeVar("H")


class Request:
    """One request, with where it came from and which logical broker it was sent to."""

    __slots__ = ("client", "command", "is_answer_lost", "node", "was_held")

    def __init__(self, command: RemotingCommand, client: Client, node: Node) -> None:
        self.command = command
        self.client = client
        self.node = node
        self.was_held = False
        """Whether this is a second look, after a hold: it never holds again."""
        self.is_answer_lost = False
        """Whether an interceptor lets nobody hear of what was done."""

    def header(self, kind: type[H]) -> H:
        """Its fields, read as a header of this kind. Raises ProtocolError."""
        return from_fields(kind, self.command.fields)

    def answer(self, answer: RemotingCommand) -> None:
        """Send the answer, unless none was asked for."""
        if not self.is_answer_lost:
            self.client.answer(self.command, answer)

    def __repr__(self) -> str:
        return f"<Request {self.command.code} from {self.client.peer}>"


Handler: TypeAlias = Callable[[Request], Answer]
