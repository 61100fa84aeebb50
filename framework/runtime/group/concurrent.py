"""Concurrent: how a group runs handlers that is not orderly, and what becomes of messages that fail. Wiring only."""

from __future__ import annotations

from framework.model.queue import MessageQueue
from framework.runtime.group.broadcasting import NoLeases
from framework.runtime.group.crews import Crews
from framework.runtime.group.parts import GroupParts
from framework.runtime.group.plan import GroupPlan, Handling
from framework.services.outcome.outcomes import Decide, Outcomes
from framework.services.outcome.retry_in_place import RetryInPlace
from framework.services.outcome.settle import Settler
from framework.services.outcome.unopened import Unopened
from framework.services.queue.pull import PullLoop, TakesChunks
from framework.services.supervise import supervise


class Concurrent:
    """One per group that is not orderly; its counterpart is `Ordering`, with the same methods."""

    leases = NoLeases()

    def __init__(self, parts: GroupParts, decide: Decide) -> None:
        plan, world, tree = parts.plan, parts.world, parts.tree
        self._parts, self._rooms = parts, parts.cluster.retry_rooms
        self._crews = Crews(plan, parts.handlings.values(), world, tree, parts.reports.lines)
        self._settler = Settler(plan.name, plan.max_retries, parts.cluster.retry_copies, tree, world.chance)
        self._retries = RetryInPlace(plan.settings.concurrency, tree, world.clock, world.workers)
        self.not_success = Outcomes(
            plan.name, plan.max_retries, decide, counts=parts.counts, settler=self._settler, retries=self._retries,
            unopened=Unopened(plan.name, tree, world.clock, world.workers), reports=parts.reports, clock=world.clock,
            is_async=lambda topic: parts.handlings[topic].is_async,
        ).not_success  # fmt: skip

    def start(self) -> None:
        self._crews.start()
        supervise(self._parts.tree, f"expiry {self._parts.plan.name}", self._crews.expiry.run, self._parts.world.chance)

    def adopt(self, plan: GroupPlan, size: int) -> None:
        """Run at most `size` handlers at once from now on, none where the group is paused."""
        self._crews.adopt(plan, size)

    def handlings_changed(self) -> None:
        self._crews.serve(self._parts.handlings.values())

    def of(self, handling: Handling) -> TakesChunks:
        """The crew that runs this handler."""
        return self._crews.of(handling)

    def own(self, pull: PullLoop, handling: Handling) -> None:
        """A queue is ours."""

    # A queue that is left

    def leaving(self, pull: PullLoop, *, is_handed_on: bool) -> None:
        self._settler.hurry(pull.flow.window)

    def busy(self, pull: PullLoop, until: float = 0.0) -> int:
        """Handlers of the queue that run, and copies of its messages that are not durable yet."""
        window = pull.flow.window
        return pull.running + self._settler.pending_for(window) + self._retries.pending_for(window)

    async def release(self, queue: MessageQueue) -> None:
        """Nobody waits for a lock."""

    # What holds messages up

    @property
    def pending(self) -> int:
        """Failed messages that wait for their copies, or to be retried in place."""
        return self._settler.pending + self._retries.pending

    @property
    def unsent(self) -> int:
        """Failed messages of which no broker keeps a copy yet, though each way was tried."""
        return self._settler.stuck

    @property
    def hanging(self) -> int:
        """Workers that are missing because handlers that timed out do not return."""
        return self._crews.hanging

    def blocked_because(self, pull: PullLoop) -> str | None:
        if self.hanging:
            return f"{self.hanging} places are empty: handlers that were given up do not end"
        stuck = self._settler.stuck_because(pull.flow.window)
        return stuck or self._rooms.complaint(self._parts.plan.name, pull.queue.broker)

    def connection_made(self) -> None:
        """A broker is there (again): what could be sent nowhere is sent at once."""
        self._settler.hurry()

    def __repr__(self) -> str:
        return f"<Concurrent {self._crews} {self._settler}>"
