"""What a request may be answered with, and who is answered.

A handler decides at once; what must wait is said, not awaited: `AfterCommit` for the disk, `Hold` for a message that
has not come yet, `Relay` for what members say.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

from framework.broker.loans import NOTHING, Loan
from framework.errors import FrameworkError
from framework.model.sql92 import Expression
from framework.wire.codes import ResponseCode
from framework.wire.command import RemotingCommand

if TYPE_CHECKING:
    from framework.broker.store.writer import Transaction

T = TypeVar("T")


class Answered(Protocol):
    """The answer of a client that was asked something; an asyncio future fits."""

    def add_done_callback(self, callback: Callable[[Any], object], /) -> None: ...
    def cancelled(self) -> bool: ...
    def exception(self) -> BaseException | None: ...
    def result(self) -> RemotingCommand: ...


class Client(Protocol):
    """One connection of a client, as handlers see it. Compared by identity: members are connections, not names."""

    @property
    def peer(self) -> str: ...
    def send(self, command: RemotingCommand) -> None: ...
    def answer(self, request: RemotingCommand, answer: RemotingCommand) -> None: ...
    def close(self, reason: str) -> None: ...
    def request_now(self, command: RemotingCommand, *, timeout_ms: int) -> Answered: ...
    def attend(self, work: Generator[None, None, None]) -> None:
        """Go on with this, a step a turn, until it ends or the connection does, which closes it."""

    def prove(self) -> None:
        """It has asked for something that it may have."""

    @property
    def is_proven(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class AfterCommit(Generic[T]):
    """Write, and answer only when it is on disk."""

    change: Callable[[Transaction], T | Generator[None, None, T]]
    """A `Change`, as the writer has it."""
    answer: Callable[[T], RemotingCommand]
    """Makes the answer from the change's result."""
    refused: Callable[[FrameworkError], RemotingCommand] | None = None
    """Makes it from the error where the store failed; else code 1."""
    loan: Loan = NOTHING
    """Given back when it is answered, however it ended."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Wait for a message in a queue, no longer than `timeout_ms`, then look again."""

    topic: str
    number: int
    timeout_ms: int
    tags: frozenset[int] | None = None
    """Hashes of the tags waited for; None for all."""
    condition: Expression | None = None
    """What must be TRUE of a message waited for, where that is said in SQL92."""
    is_pop: bool = False
    """Whether it waits among pops: one arrival wakes one of a group, and `topic` names both."""


@dataclass(frozen=True, slots=True)
class Relay:
    """Ask members of a group, and answer with what they say."""

    asked: tuple[tuple[Client, RemotingCommand], ...]
    timeout_ms: int
    answer: Callable[[list[RemotingCommand | None]], RemotingCommand]
    """Makes the answer from theirs, in the order asked; None for a member that did not answer in time."""


@dataclass(frozen=True, slots=True)
class InSteps:
    """Too much for one turn: a step at a time, while other connections have theirs; the last says what to answer."""

    steps: Generator[None, None, Answer]
    is_write: bool = False
    """Those that write wait for each other, and so do those that read: each holds more than many may at once."""
    is_short: bool = False
    """Whether it may be done in one turn as well, where too many wait."""


Answer: TypeAlias = "RemotingCommand | AfterCommit[Any] | Hold | Relay | InSteps"


class Refusal(FrameworkError):
    """A request that gets an error code and a remark. The dispatcher turns it into that answer."""

    def __init__(self, code: ResponseCode, remark: str, fields: Mapping[str, str] | None = None) -> None:
        super().__init__(f"code {int(code)}: {remark}")
        self.code = code
        self.remark = remark
        self.fields = fields


def ok(fields: dict[str, str] | None = None, body: bytes = b"", *, remark: str | None = None) -> RemotingCommand:
    return RemotingCommand(ResponseCode.SUCCESS, fields, body, remark=remark)


def when_saved(answer: RemotingCommand | None = None) -> AfterCommit[None]:
    """For changes to tables that are written along with every group: answer when the next one is on disk."""
    return AfterCommit(lambda _: None, lambda _: answer or ok())


def refuse(code: int, remark: str, fields: Mapping[str, str] | None = None) -> RemotingCommand:
    return RemotingCommand(code, dict(fields) if fields else None, remark=remark)
