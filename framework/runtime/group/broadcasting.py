"""Broadcasting: what a group has in place of brokers' offsets, other members and copies, when every member is given
every message. Wiring only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from framework.core.order_lease import OrderLease
from framework.core.rolls import Roll
from framework.model.pulled import PullResult
from framework.model.queue import MessageQueue
from framework.net.task_tree import TaskTree
from framework.ports import World
from framework.runtime.group.plan import GroupPlan
from framework.services.offsets.local_offsets import LocalOffsets
from framework.services.outcome.retry_in_place import RetryInPlace
from framework.services.queue.pull import QueuePulls
from framework.services.rebalance import KnowsMembers

NEVER_OVER = 2**62


class Broadcasting:
    """One per broadcasting group."""

    def __init__(self, plan: GroupPlan, member: str, brokers: Any, world: World, tree: TaskTree) -> None:
        assert plan.broadcasting is not None
        self.offsets = LocalOffsets(plan.broadcasting, brokers, world, tree)
        self.members: KnowsMembers = _Alone(member)
        self.again = RetryInPlace(plan.settings.concurrency, tree, world.clock, world.workers)

    def pulls(self, pulls: QueuePulls) -> QueuePulls:
        """The same pulls, which tell the broker no offset: it would take it for the whole group's."""
        return _Untold(pulls)


class _Alone:
    """The member list of a group whose members do not divide anything: each is the only one."""

    def __init__(self, member: str) -> None:
        self._member = member

    async def rolls(self, group: str, brokers: Sequence[str], member: str) -> list[Roll]:
        return [Roll(broker, (self._member,)) for broker in brokers]


class _Untold:
    def __init__(self, pulls: QueuePulls) -> None:
        self._pulls = pulls

    def pull(self, offset: int, committable: Callable[[], int], *, alone: bool = False) -> Awaitable[PullResult]:
        return self._pulls.pull(offset, _nothing, alone=alone)


def _nothing() -> int:
    return 0


class NoLeases:
    """Stands where an orderly group asks for locks: nobody else is given the messages in another order."""

    def claim(self, queue: MessageQueue) -> OrderLease:
        lease = OrderLease(0)
        lease.until_ms = NEVER_OVER
        return lease

    async def release(self, queue: MessageQueue, *, unlock: bool = True) -> None:
        return None

    def connection_lost(self, address: str) -> None:
        return None

    def of(self, queue: MessageQueue) -> OrderLease | None:
        return None

    def waits_because(self, queue: MessageQueue) -> str | None:
        return None

    async def run(self) -> None:
        await asyncio.Event().wait()
