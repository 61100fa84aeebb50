"""DeadMessage: a dead letter with the reason that it carries, for tests to compare."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from framework.model import last_words
from framework.model.message import Message


@dataclass(frozen=True, slots=True)
class DeadMessage:
    """One message in a group's dead-letter queue."""

    group: str
    message: Message
    """As it is stored."""

    @property
    def reason(self) -> str:
        """What the handler answered or raised; empty where its broker gave it up."""
        return self.message.properties.get(last_words.REASON, "")

    @property
    def error(self) -> str:
        """The class of the exception; empty where the handler answered, or took too long."""
        return self.message.properties.get(last_words.ERROR, "")

    @property
    def attempts(self) -> int:
        """How often a handler was called for it."""
        return int(self.message.properties.get(last_words.ATTEMPTS, self.message.attempt))

    @property
    def message_id(self) -> str:
        return self.message.message_id

    @property
    def body(self) -> bytes:
        return self.message.body

    @property
    def properties(self) -> Mapping[str, str]:
        return self.message.properties

    def __getattr__(self, name: str) -> Any:
        """All else that a message has."""
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.message, name)
