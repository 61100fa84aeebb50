"""@transaction_check: a function that knows how a local transaction ended, said at the function; and its answers."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import TypeAlias

from framework.errors import shorten
from framework.mistakes import TransactionWrong
from framework.model.message import Message
from framework.model.reserved import GROUP_LENGTH_MAX, check_name

CheckFunction: TypeAlias = Callable[[Message], str | Awaitable[str]]
"""What it answers is the word of a `TransactionState`; any text is allowed by type, for that is how users annotate."""

_EXAMPLE = 'write @transaction_check("billing") above a function of one message'


class TransactionState(StrEnum):
    """How a local transaction ended. A check function may answer with the word instead, such as `"commit"`."""

    COMMIT = "commit"
    """Consumers get the message."""
    ROLLBACK = "rollback"
    """No consumer ever gets it."""
    UNKNOWN = "unknown"
    """It is not known yet: the broker asks again."""


class TransactionCheck:
    """A check function with its producer group. Call it and the function runs."""

    __slots__ = ("function", "group", "is_async", "name")

    def __init__(self, group: str, function: CheckFunction) -> None:
        self.group, self.function = group, function
        self.is_async = inspect.iscoroutinefunction(inspect.unwrap(function))
        self.name = getattr(function, "__name__", "check")

    def __call__(self, message: Message) -> str | Awaitable[str]:
        return self.function(message)

    def __repr__(self) -> str:
        return f"<TransactionCheck {self.name} of {self.group}>"


def transaction_check(group: str) -> Callable[[CheckFunction], TransactionCheck]:
    """Have this function say how the transactions of a producer group ended, when a broker asks.

    It gets the half message, which carries the keys and properties it was sent with, looks into your own store, and
    returns "commit", "rollback" or "unknown". Any member of the producer group may be asked, also about a transaction
    that another process began and did not end. An async function runs on the event loop, a plain one on a worker
    thread. If it raises, that is "unknown": the broker asks again later.
    """
    if not isinstance(group, str):
        raise TransactionWrong(f"@transaction_check without a producer group; {_EXAMPLE}")
    check_name("producer group", group, GROUP_LENGTH_MAX)

    def declared(function: CheckFunction) -> TransactionCheck:
        if not callable(function) or isinstance(function, type):
            raise TransactionWrong(f"@transaction_check above {shorten(function)}: {_EXAMPLE}")
        return TransactionCheck(group, function)

    return declared
