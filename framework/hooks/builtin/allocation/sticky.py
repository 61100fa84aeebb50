"""`sticky`: balanced within one, and a member that comes or goes moves little more than it must. Not for Java members.

Highest random weight with capacities: every pair of a member and a queue has a weight that both sides can compute, and
pairs are made from the heaviest down while the member has room. Floor(Q/n) is room for all, and the Q mod n queues that
are left over go where the weights take them. No memory is needed, so members agree without talking.

Fewest moves and perfect balance cannot both be had without memory: over 1 to 12 members and 3 to 100 queues a newcomer
moves 1.3 times the least on average, with `averaging` 2.3 times and with `circle` 5.1 (`python -m benchmarks.moves`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from framework.hooks.markers import hookimpl
from framework.model.contracts import AllocationStrategy
from framework.model.queue import MessageQueue


class Sticky:
    name = "sticky"

    def allocate(self, member: str, members: Sequence[str], queues: Sequence[MessageQueue]) -> list[MessageQueue]:
        if member not in members:
            return []
        share, left_over = divmod(len(queues), len(members))
        owned = dict.fromkeys(members, 0)
        taken: set[MessageQueue] = set()
        mine: list[MessageQueue] = []
        for _, each, queue in sorted((weight(each, queue), each, queue) for each in members for queue in queues):
            if queue in taken or owned[each] > share or (owned[each] == share and not left_over):
                continue
            left_over -= owned[each] == share
            owned[each] += 1
            taken.add(queue)
            if each == member:
                mine.append(queue)
        return mine


def weight(member: str, queue: MessageQueue) -> bytes:
    """The lower, the heavier: bytes sort by themselves, and no process draws its own as with Python's `hash`."""
    key = f"{member} {queue.topic} {queue.broker} {queue.number}"
    return hashlib.md5(key.encode("utf-8", "replace"), usedforsecurity=False).digest()


@hookimpl
def register_allocation_strategies() -> list[AllocationStrategy]:
    return [Sticky()]
