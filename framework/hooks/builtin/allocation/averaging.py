"""`averaging`: neighbouring queues to each member, the first ones get one more. Identical to the Java client's default.

Members of one group in two languages must compute the same, so this follows AllocateMessageQueueAveragely queue for
queue, not only in its sizes.
"""

from __future__ import annotations

from collections.abc import Sequence

from framework.hooks.markers import hookimpl
from framework.model.contracts import AllocationStrategy
from framework.model.queue import MessageQueue


class Averaging:
    name = "averaging"

    def allocate(self, member: str, members: Sequence[str], queues: Sequence[MessageQueue]) -> list[MessageQueue]:
        if member not in members:
            return []
        place, count = members.index(member), len(members)
        share, rest = divmod(len(queues), count)
        # The first `rest` members own one queue more, so everybody's run begins after theirs.
        start = place * share + min(place, rest)
        return list(queues[start : start + share + (1 if place < rest else 0)])


@hookimpl
def register_allocation_strategies() -> list[AllocationStrategy]:
    return [Averaging()]
