"""GroupKind: what differs between groups: whether handlers run concurrently or in order, and whether members share the
messages or are given all of them each (broadcasting). The two are chosen apart from each other, once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

from framework.core.member_lists import MemberList
from framework.core.retry import decide, decide_broadcasting, decide_in_order
from framework.model.contracts import AllocationStrategy
from framework.model.pulled import PullResult
from framework.model.queue import MessageQueue
from framework.runtime.group.concurrent import Concurrent
from framework.runtime.group.ordering import Ordering
from framework.runtime.group.parts import GroupParts
from framework.runtime.group.popping import EachAll, PopOffsets, PopRoutes
from framework.services.offsets.local_offsets import LocalOffsets
from framework.services.outcome.outcomes import Decide
from framework.services.queue.position import KeepsOffsets
from framework.services.queue.pull import GroupSide, PullLoop, QueuePulls
from framework.services.rebalance import KnowsMembers, KnowsRoutes


class OnlyMember:
    """The member list of a group whose members do not divide anything: each is the only one."""

    def __init__(self, member: str) -> None:
        self._member = member

    async def lists(self, group: str, brokers: Sequence[str], member: str) -> list[MemberList]:
        return [MemberList(broker, (self._member,)) for broker in brokers]


class WithoutOffsets:
    """The same pulls, which carry no offset to the broker: it would take it for the whole group's."""

    def __init__(self, pulls: QueuePulls) -> None:
        self._pulls = pulls

    def pull(self, offset: int, committable: Callable[[], int], *, alone: bool = False) -> Awaitable[PullResult]:
        return self._pulls.pull(offset, _nothing, alone=alone)


def _nothing() -> int:
    return 0


@dataclass(frozen=True, slots=True)
class GroupKind:
    """One per group."""

    pool: Concurrent | Ordering
    """Runs the handlers, and carries out what becomes of messages."""
    offsets: KeepsOffsets
    stored: Callable[[MessageQueue], int]
    """The offset that is known to be stored; -1 where none is."""
    members: KnowsMembers
    pulls: Callable[[QueuePulls], QueuePulls]
    """What stands between a queue and its pulls."""
    routes: KnowsRoutes
    """Which queues there are to divide."""
    strategy: AllocationStrategy
    files: LocalOffsets | None = None
    """Of a broadcasting group."""

    def open(self) -> None:
        """Read what is kept on this machine, before the group starts."""
        if self.files is not None:
            self.files.open()

    def close(self) -> None:
        if self.files is not None:
            self.files.close()


def kind_of(parts: GroupParts, side: GroupSide, restart: Callable[[PullLoop], None]) -> GroupKind:
    """What this group's plan asks for."""
    plan, cluster = parts.plan, parts.cluster

    def pool(concurrent: Decide, in_order: Decide) -> Concurrent | Ordering:
        return Ordering(parts, in_order, side, restart) if plan.orderly else Concurrent(parts, concurrent)

    if plan.broadcasting is None:
        stored = partial(cluster.fences.stored, plan.name)
        routes, strategy, offsets = cluster.routes, plan.strategy, cluster.brokers
        if plan.settings.delivery == "pull":
            return GroupKind(
                pool(decide, decide_in_order), offsets, stored, offsets, lambda pulls: pulls, routes, strategy
            )
        return GroupKind(
            pool(decide, decide_in_order), PopOffsets(offsets), stored, offsets, lambda pulls: pulls,
            PopRoutes(plan, cluster, parts.member), EachAll(strategy),
        )  # fmt: skip
    local = LocalOffsets(plan.broadcasting, cluster.brokers, parts.world, parts.tree)
    only = OnlyMember(parts.member)
    return GroupKind(
        pool(decide_broadcasting, decide_broadcasting),
        local,
        local.stored,
        only,
        WithoutOffsets,
        cluster.routes,
        plan.strategy,
        local,
    )
