"""What a plugin's handler of the built-in broker gets and returns: a request and an answer, without their bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class BoxRequest:
    """One request to the built-in broker."""

    code: int
    fields: Mapping[str, str]
    """The header's."""
    body: bytes
    peer: str
    """The sender, as HOST:PORT."""
    broker: str
    """The logical broker that it was sent to."""


@dataclass(frozen=True, slots=True)
class BoxAnswer:
    """What is sent back; code 0 is success."""

    code: int = 0
    fields: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    remark: str | None = None


@dataclass(frozen=True, slots=True)
class BoxFailed:
    """There is no answer: the handler raised, or answered what it must not. Counted and named already."""

    plugin: str
    code: int
    error: str
    """Its kind alone: its words may hold something of a request."""

    def __str__(self) -> str:
        return f"plugin {self.plugin!r} failed at request {self.code}: {self.error}"


BoxHandler: TypeAlias = Callable[[BoxRequest], BoxAnswer | BoxFailed | None]
"""A plugin's answers BoxAnswer, or None: the built-in broker answers itself, as if there were no plugin."""
