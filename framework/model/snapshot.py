"""Snapshot: the frozen picture of a running application. Whoever shows or checks something reads this and only this."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QueueSnapshot:
    """One owned queue."""

    queue: str
    state: str
    reason: str | None
    """Why it waits or fails; None while it flows."""
    committable: int
    next_offset: int
    max_offset: int
    messages: int
    bytes: int
    running: int


@dataclass(frozen=True, slots=True)
class GroupSnapshot:
    """One consumer group of this process."""

    group: str
    topics: tuple[str, ...]
    queues: tuple[QueueSnapshot, ...]
    handled: int
    retried: int
    dead_lettered: int
    dropped: int
    late: int
    is_balanced: bool


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The whole process."""

    name: str
    member: str
    is_ready: bool
    """Every group has joined and is balanced."""
    groups: tuple[GroupSnapshot, ...]
    budget_used: int
    budget_limit: int
