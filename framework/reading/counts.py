"""Counts: what a reader did at the brokers. It only counts; what a number means is said by who shows it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Counts:
    """One reader's since it was made."""

    pulls: int = 0
    """Answered ones."""
    empty_pulls: int = 0
    """Of these, such that brought no message."""
    bytes: int = 0
    """Of the messages that they brought."""
    waits: int = 0
    """Pauses before a request was made again."""
    waited_ms: int = 0
    """All pauses together."""
    passed_over: int = 0
    """Each damaged message and each run of offsets that is gone, as far as who reads went on nevertheless."""
