"""Ordering: what an orderly group has beside a concurrent one: leases, and one worker a queue. Wiring only.

Every queue of the group is consumed under a lock, those of its retry topic too, as the Java client does: nothing of
ours puts messages there, but the group may have been a concurrent one, and a lock keeps Java members from its queues.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from framework.core.offsets import OffsetTable
from framework.core.queue_flow import QueueState
from framework.core.retry import decide_in_order
from framework.hooks.listeners import NOBODY, Listeners
from framework.model.queue import MessageQueue
from framework.net.task_tree import TaskTree
from framework.ports import World
from framework.runtime.group.broadcasting import NoLeases
from framework.runtime.reports import GroupReports
from framework.services.crew.run import MessageCounts
from framework.services.orderly.crew import Orderly
from framework.services.orderly.desk import InOrder
from framework.services.orderly.ends import Decide
from framework.services.orderly.lease import LeaseLoop
from framework.services.queue.pull import GroupSide, PullLoop
from framework.services.supervise import supervise


class Ordering:
    """One per orderly group. The group tells it which queues come and go."""

    def __init__(
        self,
        group: str,
        member: str,
        *,
        concurrency: int,
        max_retries: int,
        stuck_after_ms: int,
        brokers: Any,
        world: World,
        tree: TaskTree,
        reports: GroupReports,
        side: GroupSide,
        counts: MessageCounts,
        offsets: OffsetTable,
        owned: Mapping[MessageQueue, PullLoop],
        restart: Callable[[PullLoop], None],
        decide: Decide = decide_in_order,
        no_leases: NoLeases | None = None,
        listeners: Listeners = NOBODY,
    ) -> None:
        self._group, self._world, self._tree = group, world, tree
        self._offsets, self._owned, self._restart = offsets, owned, restart
        self.crew = Orderly(
            group, concurrency, max_retries=max_retries, stuck_after_ms=stuck_after_ms, brokers=brokers,
            reports=reports, side=side, counts=counts, clock=world.clock, workers=world.workers, chance=world.chance,
            tree=tree, decide=decide, listeners=listeners,
        )  # fmt: skip
        self.leases = no_leases or LeaseLoop(
            group, member, brokers, world.clock, granted=self._granted, lost=self._lost
        )

    def start(self) -> None:
        supervise(self._tree, f"leases {self._group}", self.leases.run, self._world.chance)

    def take(self, pull: PullLoop, how: InOrder) -> None:
        """The queue is ours to claim; its flow begins once it is locked."""
        self.crew.take(pull, self.leases.claim(pull.queue), how)

    async def give_back(self, queue: MessageQueue) -> None:
        """The last thing done with a queue, when its offset is confirmed.

        Where a handler still runs, the lock is left to run out: the next owner begins a minute later, not beside it.
        """
        await self.leases.release(queue, unlock=not self.crew.is_busy(queue))
        self.crew.leave(queue)

    def _granted(self, queue: MessageQueue) -> None:
        pull = self._owned[queue]
        if pull.flow.state is QueueState.CLAIMED:
            pull.flow.lease_granted()
            pull.bell.ring()

    def _lost(self, queue: MessageQueue) -> None:
        """Nothing more starts, nothing more counts; the pull under way must not be answered into the next window."""
        pull = self._owned[queue]
        if not pull.flow.window.is_closed:
            pull.flow.window.confirmed(self._offsets.held(queue))
            pull.lost += pull.flow.window.unconfirmed()
        pull.flow.lease_lost()
        self.crew.clear(queue)
        self._offsets.forget(queue)
        if pull.flow.state is QueueState.CLAIMED:
            self._restart(pull)
        else:
            pull.quiet.ring()

    def reason(self, queue: MessageQueue) -> str | None:
        """Why a queue does not get on, as far as that is a matter of order."""
        pull = self._owned.get(queue)
        if pull is not None and pull.flow.state is QueueState.CLAIMED:
            return self.leases.waits_because(queue) or "waits for its lock"
        return self.crew.blocked_because(queue)

    def __repr__(self) -> str:
        return f"<Ordering {self.crew} {self.leases}>"
