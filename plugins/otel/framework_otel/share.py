"""Share: which of the traces that would begin here do, evenly and without a sampler's being asked: that costs several
times what a handler's call does. It knows no span.
"""

from __future__ import annotations


class Share:
    """One for what is received, one for what is sent. Threads may share it: at worst one more or less is taken."""

    __slots__ = ("_due", "_share")

    def __init__(self, share: float) -> None:
        self._share, self._due = share, 1.0 - share

    def leaves_out(self) -> bool:
        """Whether the next one is none of those; the first always is."""
        due = self._due = self._due + self._share
        if due < 1.0:
            return True
        self._due = due - 1.0
        return False
