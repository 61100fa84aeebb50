"""NoProgress: how long to stand back from a broker that answers at once and brings nothing on. Pure.

Two such answers are nothing: a hold ends early, or a broker moves a queue and has to say so twice to be believed.
Before each one more in a row there is a wait, longer and longer, or the broker would be asked as fast as it answers.
"""

from __future__ import annotations

from framework.core import limits
from framework.core.backoff import Backoff

FREE = 2
NAMED_AT = 4
"""In a row: from here on it is said."""


class NoProgress:
    """One a queue."""

    __slots__ = ("_backoff", "row")

    def __init__(self) -> None:
        self._backoff = Backoff(limits.IDLE_DELAY_MS, limits.IDLE_DELAY_MAX_MS)
        self.row = 0
        """So many answers since one brought the queue on."""

    def again(self, jitter: float) -> int:
        """One more: for how long to stand back, in ms."""
        self.row += 1
        return self._backoff.failed(jitter) if self.row > FREE else 0

    def ended(self) -> None:
        """An answer brought the queue on, or the broker waited with it."""
        self.row = 0
        self._backoff.succeeded()

    @property
    def is_named(self) -> bool:
        return self.row >= NAMED_AT

    def __repr__(self) -> str:
        return f"<NoProgress {self.row} in a row>"
