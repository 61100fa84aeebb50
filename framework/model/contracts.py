"""What plugins implement: protocols that stand below everybody, so that host, core and guest can name them.

A protocol arrives here with the first code that asks for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from framework.model.queue import MessageQueue


@runtime_checkable
class AllocationStrategy(Protocol):
    """Which of a topic's queues a member owns.

    Members do not vote: each one computes this for itself from the same sorted lists, and all must come to answers that
    fit together. So a strategy is pure: no clock, no chance, no memory of the last round.
    """

    @property
    def name(self) -> str:
        """What `consumers.<group>.allocation` calls it."""
        ...

    def allocate(self, member: str, members: Sequence[str], queues: Sequence[MessageQueue]) -> list[MessageQueue]:
        """The queues of `member`; both lists are sorted, and a member that is not on the list owns nothing."""
        ...
