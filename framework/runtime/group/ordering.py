"""Ordering: how an orderly group runs handlers: one worker per queue, under a lock. Wiring only.

Every queue of the group is consumed under a lock, those of its retry topic too, as the Java client does: nothing of
ours puts messages there, but the group may have been a concurrent one, and a lock keeps Java members from its queues.
"""

from __future__ import annotations

from collections.abc import Callable

from framework.core.chunk import Chunk
from framework.core.order_lease import OrderLease
from framework.core.queue_flow import QueueState
from framework.core.results import Result
from framework.model.message import Message
from framework.model.outcome import Extend, Outcome
from framework.model.queue import MessageQueue
from framework.runtime.group.parts import GroupParts
from framework.runtime.group.plan import GroupPlan, Handling
from framework.services.orderly.ends import OrderlyOutcomes
from framework.services.orderly.lease import LeaseLoop
from framework.services.orderly.pool import Orderly
from framework.services.orderly.watch import lanes_at_work, retrying
from framework.services.outcome.outcomes import Decide
from framework.services.outcome.trials import Trials
from framework.services.pool.run import AtWork
from framework.services.queue.pull import GroupSide, PullLoop, TakesChunks
from framework.services.supervise import supervise


class Ordering:
    """One per orderly group; its counterpart is `Concurrent`, with the same methods."""

    pending = hanging = 0
    """A failed message stays in its queue, and no worker is replaced."""

    def __init__(self, parts: GroupParts, decide: Decide, side: GroupSide, restart: Callable[[PullLoop], None]) -> None:
        plan, cluster, world = parts.plan, parts.cluster, parts.world
        self._parts, self._restart = parts, restart
        ends = OrderlyOutcomes(
            side, plan.max_retries, stuck_after_ms=plan.settings.stuck_after, brokers=cluster.retry_copies,
            reports=parts.reports, chance=world.chance, decide=decide, ended=self._ended,
        )  # fmt: skip
        self._pool = Orderly(
            plan.name, plan.settings.concurrency, ends, stuck_after_ms=plan.settings.stuck_after, clock=world.clock,
            workers=world.workers, tree=parts.tree, listeners=plan.listeners,
        )  # fmt: skip
        self.trials = Trials(
            plan.name, plan.settings.breaker, self._pool.held, parts.owned, parts.taken_at_once,
            clock=world.clock, chance=world.chance, tree=parts.tree,
        )  # fmt: skip
        self.leases = (
            LeaseLoop(
                plan.name,
                parts.member,
                cluster.brokers,
                world.clock,
                granted=self._granted,
                lost=self._lost,
                taken=self._taken,
            )
            if plan.needs_locks
            else None
        )
        """None in a broadcasting group: nobody else is given the messages in another order."""

    def start(self) -> None:
        if self.leases is not None:
            supervise(self._parts.tree, f"leases {self._parts.plan.name}", self.leases.run, self._parts.world.chance)

    def adopt(self, plan: GroupPlan, size: int) -> None:
        """Run at most `size` handlers at once from now on, none where the group is paused."""
        self._pool.resize(size)

    def handlings_changed(self) -> None:
        """Each queue is given its own when it is taken."""

    def of(self, handling: Handling) -> TakesChunks:
        """The pool that runs this handler."""
        return self._pool

    def take_back(self, pull: PullLoop) -> list[Chunk]:
        """Nothing: what stands behind it would overtake it."""
        return []

    def intervene(self, queue: MessageQueue, offset: int, answer: Extend | Outcome) -> str:
        """Of a line nothing is taken out: what stands behind it would overtake it."""
        return "the group works in order: what is behind this message would overtake it"

    def own(self, pull: PullLoop, handling: Handling) -> None:
        """A queue is ours to claim; its flow begins once it is locked."""
        lease = OrderLease.for_ever() if self.leases is None else self.leases.claim(pull.queue)
        self._pool.take(pull, lease, handling.in_order)

    def _ended(self, pull: PullLoop, lane: object, message: Message, end: Result | None) -> None:
        self.trials.ended(pull, lane, message, end)

    def not_success(self, *_: object) -> None:
        raise AssertionError("an orderly queue's worker decides about its messages itself")

    # A queue that is left

    def leaving(self, pull: PullLoop, *, is_handed_on: bool) -> None:
        if is_handed_on:
            self._pool.close_gaps(pull.queue)

    def busy(self, pull: PullLoop, until: float = 0.0) -> int:
        """Whether handlers of the queue run, or are to until then."""
        return int(self._pool.is_busy(pull.queue, int(until * 1000)))

    async def release(self, queue: MessageQueue) -> None:
        """Unlock the queue. Where a handler still runs, the lock is left to run out: the next owner begins a minute
        later, not beside it.
        """
        if self.leases is not None:
            await self.leases.release(queue, unlock=not self._pool.is_busy(queue))
        self._pool.leave(queue)

    # What holds messages up

    @property
    def retrying(self) -> int:
        """Lines whose first message has failed: it stays, and is tried again."""
        return retrying(self._pool.lanes())

    def at_work(self) -> list[AtWork]:
        """The handlers that run."""
        return lanes_at_work(self._pool.lanes())

    @property
    def unsent(self) -> int:
        """Queues whose dead letter no broker has taken yet, though it was tried."""
        return self._pool.unsent

    def blocked_because(self, pull: PullLoop) -> str | None:
        if self.leases is not None and pull.flow.state is QueueState.CLAIMED:
            return self.leases.waits_because(pull.queue) or "waits for its lock"
        return self._pool.blocked_because(pull.queue)

    def connection_made(self) -> None:
        """Nothing waits for it."""

    # Locks come and go

    def _granted(self, queue: MessageQueue) -> None:
        pull = self._parts.owned[queue]
        if pull.flow.state is QueueState.CLAIMED:
            pull.flow.lease_granted()
            pull.bell.ring()

    def _lost(self, queue: MessageQueue) -> None:
        """Nothing more starts, nothing more counts; the pull under way must not be answered into the next window."""
        pull, offsets = self._parts.owned[queue], self._parts.offsets
        if not pull.flow.window.is_closed:
            pull.flow.window.confirmed(offsets.held(queue))
            pull.lost += pull.flow.window.unconfirmed()
        pull.flow.lease_lost()
        self._pool.clear(queue)
        offsets.forget(queue)
        if pull.flow.state is QueueState.CLAIMED:
            self._restart(pull)
        else:
            pull.quiet.ring()

    def _taken(self, queue: MessageQueue) -> None:
        """Another member is at work there: from where, is its word alone."""
        self._parts.owned[queue].flow.reached = None

    def __repr__(self) -> str:
        return f"<Ordering {self._pool} {self.leases}>"
