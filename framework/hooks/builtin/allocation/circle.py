"""`circle`: queues dealt out one by one, like cards. Identical to the Java client's strategy of that name.

With several brokers each member gets queues of all of them, where `averaging` gives it neighbours on one.
"""

from __future__ import annotations

from collections.abc import Sequence

from framework.hooks.markers import hookimpl
from framework.model.contracts import AllocationStrategy
from framework.model.queue import MessageQueue


class Circle:
    name = "circle"

    def allocate(self, member: str, members: Sequence[str], queues: Sequence[MessageQueue]) -> list[MessageQueue]:
        if member not in members:
            return []
        return list(queues[members.index(member) :: len(members)])


@hookimpl
def register_allocation_strategies() -> list[AllocationStrategy]:
    return [Circle()]
