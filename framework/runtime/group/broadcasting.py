"""Broadcasting: what stands in for other members and commits when every member is given every message."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from framework.core.rolls import Roll
from framework.model.pulled import PullResult
from framework.services.queue.pull import QueuePulls


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
