"""Broadcasting: what stands in for other members, commits and locks when every member is given every message."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from framework.core.order_lease import OrderLease
from framework.core.rolls import Roll
from framework.model.pulled import PullResult
from framework.model.queue import MessageQueue
from framework.services.queue.pull import QueuePulls

NEVER_OVER = 2**62


class OnlyMember:
    """The member list of a group whose members do not divide anything: each is the only one."""

    def __init__(self, member: str) -> None:
        self._member = member

    async def rolls(self, group: str, brokers: Sequence[str], member: str) -> list[Roll]:
        return [Roll(broker, (self._member,)) for broker in brokers]


class WithoutOffsets:
    """The same pulls, which carry no offset to the broker: it would take it for the whole group's."""

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
