"""ConsumerGroup: one group's state and loops, and the orders in which it takes, gives back and stops."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import structlog

from framework import marks
from framework.client.brokers import OFFSET_MAX
from framework.core import limits
from framework.core.assignment import Assignment, AssignmentChange
from framework.core.broadcasting import decide_broadcasting
from framework.core.budget import Budget
from framework.core.offsets import OffsetTable
from framework.core.queue_flow import QueueFlow, QueueState
from framework.core.retry import decide_in_order
from framework.core.skipping import Skipping
from framework.core.statistics import Rates
from framework.model.message import Message
from framework.model.queue import MessageQueue
from framework.model.reserved import retry_topic
from framework.model.subscription import Subscription
from framework.net.task_tree import TaskTree
from framework.net.wakeup import Wakeup
from framework.ports import World
from framework.runtime.ends import Outcomes
from framework.runtime.group.broadcasting import Broadcasting, NoLeases
from framework.runtime.group.crews import Crews
from framework.runtime.group.ordering import Ordering
from framework.runtime.group.plan import GroupPlan, Handling, retry_handling
from framework.runtime.group.progressing import Progressing
from framework.runtime.reports import GroupReports, Reports
from framework.services.crew.run import MessageCounts
from framework.services.offsets.commit import CommitLoop
from framework.services.outcome import unopened
from framework.services.outcome.settle import Settler
from framework.services.queue.pacing import Pacing
from framework.services.queue.position import Arrivals, StartingPoint, find_start
from framework.services.queue.pull import PullLoop, QueuePulls, divide_bounds
from framework.services.rebalance import RebalanceLoop
from framework.services.supervise import supervise

log = structlog.get_logger()


class ConsumerGroup:
    """The owner of a group's offsets, assignment, crews and loops."""

    def __init__(
        self,
        plan: GroupPlan,
        *,
        member: str,
        world: World,
        cluster: Any,
        budget: Budget,
        pulls: Callable[[Subscription, MessageQueue], QueuePulls],
        reports: Reports,
        heartbeat_now: Callable[..., None],
        doubled: Callable[[ConsumerGroup], object],
        tree: TaskTree,
    ) -> None:
        self.plan = plan
        self.counts = MessageCounts()
        self.offsets = OffsetTable()
        self.assignment = Assignment()
        self.skipping = Skipping(plan.skip) if plan.skip is not None else None
        self.pacing = Pacing(plan.settings.rate, world.clock)
        self.owned: dict[MessageQueue, PullLoop] = {}
        self.rates: dict[str, Rates] = {}
        """Topic -> how it goes; kept when its queues go elsewhere, for what happened in the last hour."""
        self.last_activity = world.clock.monotonic()
        self.retry_topic = retry_topic(plan.name)
        self.subscriptions = plan.wanted
        self._world, self._cluster, self._budget, self._pulls = world, cluster, budget, pulls
        self._heartbeat_now, self._tree = heartbeat_now, tree
        self._reports = GroupReports(reports, world.clock, member, keeps_copies=plan.broadcasting is None)
        self._tasks: dict[MessageQueue, asyncio.Task[None]] = {}
        self._resets: dict[MessageQueue, asyncio.Task[None]] = {}  # on their way to be stored; nobody begins before
        self._arrivals = Arrivals(plan.name)
        self._released = Wakeup()
        self._is_stopping, self._stop_by = False, float("inf")
        self._retry_handling = retry_handling(plan, world.workers)
        self.crews = Crews(plan, self._retry_handling, world, tree, self._reports.lines)
        self._settler = Settler(plan.name, plan.max_retries, cluster.brokers, tree, world.chance)
        self._held = unopened.Unopened(plan.name, tree, world.clock, world.workers)
        self.alone = Broadcasting(plan, member, cluster.brokers, world, tree) if plan.broadcasting else None
        """What stands in for brokers' offsets, other members and copies; None where members share the messages."""
        self.not_success = Outcomes(
            lambda: self.plan, counts=self.counts, settler=self._settler, holder=self._held, alone=self.alone,
            reports=self._reports, clock=world.clock, handling_of=self._handling_of,
        ).not_success  # fmt: skip
        self._progress: Any = cluster.brokers if self.alone is None else self.alone.offsets
        self.progress = None if plan.progress is None else Progressing(
            plan.name, plan.progress, cluster, self.offsets, world, tree, self.owned.values, member,
            lambda: self.members, lambda: self.rebalance.changes,
        )  # fmt: skip
        """Keeps what has ended above gaps; None where nothing is kept."""
        stored = partial(cluster.fences.stored, plan.name) if self.alone is None else self.alone.offsets.stored
        self._commits = CommitLoop(
            plan.name, self._progress, self.offsets, self.owned.values,
            others_commit=self.alone is None, listeners=plan.listeners, stored=stored,
        )  # fmt: skip
        self.order = self._ordering(member) if plan.orderly else None
        """Leases and single workers; None where messages are handled concurrently."""
        self._rebalancing: asyncio.Task[None] | None = None
        self.rebalance = RebalanceLoop(
            plan.name, member, tuple(self.subscriptions), plan.strategy, self.assignment,
            routes=cluster.routes, brokers=cluster.brokers if self.alone is None else self.alone.members,
            clock=world.clock, chance=world.chance,
            changed=self._assignment_changed, offered=self._queues_offered, not_a_member=heartbeat_now,
            doubled=lambda: doubled(self),
        )  # fmt: skip

    # Life

    def start(self) -> None:
        """Start the loops. Crews come first: a chunk is never offered to nobody."""
        name, tree, chance = self.plan.name, self._tree, self._world.chance
        if self.order is not None:
            self.order.start()
        else:
            self.crews.start()
            supervise(tree, f"expiry {name}", self.crews.expiry.run, chance)
        if self.plan.settings.paused:
            self.adopt(self.plan)
        supervise(tree, f"commit {name}", self._commits.run, chance)
        supervise(tree, f"lines {name}", partial(self._reports.run, lambda: self.plan), chance)
        if self.progress is not None:
            self.progress.start()
        self._rebalancing = supervise(tree, f"rebalance {name}", self.rebalance.run, chance)

    def adopt(self, plan: GroupPlan) -> None:
        """Go on as this plan says: how many handlers run at once, if any, and how much is held.

        A paused group starts nothing: not what is pulled already, and nothing is pulled. Its queues stay its own.
        """
        if self.plan.settings.paused and not plan.settings.paused:
            self.rebalance.now()  # notices may have been lost meanwhile, and nobody looked at what was pulled
        self.plan = plan
        self.pacing.change(plan.settings.rate)
        size = 0 if plan.settings.paused else plan.settings.concurrency
        if self.order is not None:
            self.order.crew.resize(size)
        else:
            self.crews.adopt(plan, size)
        for pull in self.owned.values():
            was_paused, pull.flow.is_paused = pull.flow.is_paused, plan.settings.paused
            if plan.settings.paused and not was_paused and pull.flow.state is QueueState.FLOWING:
                self.start_anew(pull)  # the long poll under way would bring messages for a while yet
                self.offsets.mark_unsent(pull.queue)
        divide_bounds(self.owned, self.plan.flow_limits)

    def resubscribe(self, plan: GroupPlan) -> None:
        """Go on with these subscriptions and handlers. The brokers are told by the caller.

        Queues of a topic that is gone, or is consumed otherwise, leave as any queue does; the latter come back anew. A
        topic that is gone keeps its handler, for what of it is still to be retried.
        """
        before, wanted = self.subscriptions, plan.wanted
        differs = [topic for topic in before if plan.handling.get(topic) is not self.plan.handling.get(topic)]
        differs += [topic for topic, each in wanted.items() if before.get(topic, each) != each]
        self.plan = plan = replace(plan, handling={**self.plan.handling, **plan.handling})
        self.subscriptions = wanted
        self._retry_handling = retry_handling(plan, self._world.workers)
        self.crews.serve(plan, self._retry_handling)
        for topic in before:
            if topic not in wanted:
                self._assignment_changed(topic, self.assignment.put(topic, ()))
        for topic in dict.fromkeys((*differs, *([] if plan.broadcasting else [self.retry_topic]))):
            self._leave([queue for queue in self.owned if queue.topic == topic])
        self.rebalance.resubscribe(tuple(wanted))

    def members_changed(self) -> None:
        self.rebalance.now()

    def joined(self, address: str, *, is_new: bool) -> None:
        """A broker accepted our heartbeat, the first one of a connection: what failed for want of it is tried again."""
        if is_new or not self.rebalance.is_settled:
            self.rebalance.now()
        for pull in self.owned.values():
            if address in self._cluster.routes.replicas_of(pull.queue.broker).values():
                pull.introduced()

    @property
    def members(self) -> list[str]:
        return self.rebalance.members

    @property
    def is_balanced(self) -> bool:
        return self.rebalance.is_settled

    def not_a_member(self, queue: MessageQueue) -> None:
        for address in self._cluster.routes.replicas_of(queue.broker).values():
            self._heartbeat_now(address)

    async def stop(self, drain_ms: int) -> None:
        """Retire every queue: nothing new is started, what runs may end within the limit, offsets are confirmed."""
        self._is_stopping = True
        if self._rebalancing is not None:
            self._rebalancing.cancel()
        deadline = self._stop_by = self._world.clock.monotonic() + drain_ms / 1000
        for pull in self.owned.values():
            pull.quiet.ring()  # whoever is being retired has no more time than this
        staying = [pull for pull in self.owned.values() if pull.flow.state is not QueueState.RETIRING]
        for task in [self._tree.start(self._retire(pull, deadline), name=f"retire {pull.queue}") for pull in staying]:
            await task
        while self.owned:  # taken away by a rebalance just before, and still being retired
            await self._released.wait()
        self._reports.close(self.plan)

    # Queues come and go

    def _queues_offered(self, topic: str, queues: list[MessageQueue]) -> None:
        self._arrivals.seen(topic, queues, self._world.clock.now_ms())

    def _assignment_changed(self, topic: str, change: AssignmentChange) -> None:
        self._leave(change.lost)
        for queue in change.gained:
            self._take(queue)
        if change and self.plan.listeners.assignment_changed is not None:
            self.plan.listeners.assignment_changed(self.plan.name, change.gained, change.lost)

    def _leave(self, queues: Iterable[MessageQueue]) -> None:
        patience = self._world.clock.monotonic() + limits.DRAIN_MS / 1000
        for queue in queues:
            pull = self.owned.get(queue)
            if pull is not None and pull.flow.state is not QueueState.RETIRING:
                self._begin_retiring(pull)
                self._tree.start(self._retire(pull, patience), name=f"retire {queue}")

    def _take(self, queue: MessageQueue) -> None:
        """Begin with a queue that is ours. One that is still being retired is taken when that has ended."""
        if queue in self.owned or self._is_stopping:
            return
        handling = self._handling_of(queue.topic)
        jitter, order, alone = self._world.chance.random(), self.order, self.alone
        flow = QueueFlow(
            queue, self._budget, self.plan.flow_limits, jitter=jitter, needs_lease=order is not None and not alone
        )
        pulls = self._pulls(self.subscriptions[queue.topic], queue)
        pull = PullLoop(
            flow,
            pulls=pulls if alone is None else alone.pulls(pulls),
            crew=order.crew if order is not None else self.crews.of(handling),
            call=handling.call,
            find_start=lambda: self._find_start(flow),
            offsets=self.offsets,
            group=self,
            group_name=self.plan.name,
            clock=self._world.clock,
            rates=self.rates.setdefault(queue.topic, Rates(self._world.clock.monotonic_ms())),
            # Whatever came back for a retry was wanted once, and is older than anything.
            skipping=None if queue.topic == self.retry_topic else self.skipping,
            judged=self.plan.judged,
            pacing=self.pacing,
            batch=handling.batching.count if handling.batching is not None else 1,
            progress=self.progress.of(queue) if self.progress is not None else None,
            listeners=self.plan.listeners,
        )
        flow.run = pull
        flow.is_paused, flow.damage.skips = self.plan.settings.paused, self.plan.settings.damaged == "skip"
        self.owned[queue] = pull
        if self.plan.flow_limits.is_shared:
            divide_bounds(self.owned, self.plan.flow_limits)
        if order is not None:
            order.take(pull, handling.in_order)
        self._run(pull)

    def _run(self, pull: PullLoop) -> None:
        queue = pull.queue
        self._tasks[queue] = supervise(self._tree, f"pull {queue}", pull.run, self._world.chance)

    def reset(self, queue: MessageQueue, offset: int) -> bool:
        """Go on from `offset`, now and after a restart; False where the queue is not ours to move.

        The loop starts anew: the pull that is under way is never answered into the new position.
        """
        pull = self.owned.get(queue)
        if pull is None or not 0 <= offset <= OFFSET_MAX:
            return False
        if pull.flow.can_reset:
            pull.reset(offset)
            self.start_anew(pull)
        elif pull.flow.state is not QueueState.CLAIMED:  # else it begins at what is stored, once it has its lock
            return False
        self._resets[queue] = self._tree.start(self._commits.store(queue, offset), name=f"reset {queue}")
        return True

    async def _find_start(self, flow: QueueFlow) -> StartingPoint:
        queue = flow.queue
        if (reset := self._resets.pop(queue, None)) is not None:
            await asyncio.shield(reset)
        policy = self._arrivals.policy_for(queue, self.plan.start, is_anew=flow.is_sent_back)
        return await find_start(self._progress, self.plan.name, queue, policy, self._world.clock.now_ms())

    def _begin_retiring(self, pull: PullLoop) -> None:
        pull.flow.revoke()
        self._settler.hurry(pull.flow.window)
        is_handed_on = self._is_stopping or pull.queue not in self.assignment.of(pull.queue.topic)
        if self.order is not None and is_handed_on and pull.queue.topic in self.subscriptions:
            self.order.crew.close_gaps(pull.queue)
        self._tasks.pop(pull.queue).cancel()

    async def _retire(self, pull: PullLoop, deadline: float) -> None:
        """Let running handlers end, then commit with an answer. Whoever comes next begins where we confirmed."""
        if pull.flow.state is not QueueState.RETIRING:
            self._begin_retiring(pull)
        busy = await self._let_end(pull, deadline)
        if busy:
            marks.sometimes("handlers still ran when the drain limit was over")
            log.warning("queue left busy", group=self.plan.name, queue=str(pull.queue), running=busy)
            if self._is_stopping:
                self.counts.abandoned += busy
        has_kept = False
        try:
            has_kept = await self._hand_over(pull)
        except Exception:  # border: a store's, say; a queue that could not be left would keep the process from ending
            log.exception("queue handover failed", group=self.plan.name, queue=str(pull.queue))
        if self._is_stopping:
            self.counts.unconfirmed += self._commits.lacking(pull, has_kept=has_kept)
        pull.flow.released()
        self.offsets.forget(pull.queue)
        del self.owned[pull.queue]
        if self.plan.flow_limits.is_shared:
            divide_bounds(self.owned, self.plan.flow_limits)
        self._released.ring()
        if pull.queue in self.assignment.of(pull.queue.topic):
            self._take(pull.queue)

    async def _hand_over(self, pull: PullLoop) -> bool:
        """Whether a record keeps what has ended above a gap."""
        pull.flow.window.stop_handing_out()  # whatever might still have been started
        self.offsets.advance(pull.queue, pull.flow.window.settle())
        if marks.safeguard("the last offset is confirmed"):
            await self._commits.flush(pull.queue)
        has_kept = self.progress is not None and await self.progress.release(pull)
        if self.order is not None:
            await self.order.give_back(pull.queue)
        return has_kept

    async def _let_end(self, pull: PullLoop, deadline: float) -> int:
        """How many handlers of the queue still run when their time is over."""
        clock = self._world.clock
        if not marks.safeguard("running handlers are waited for"):
            deadline = 0.0
        if self._busy(pull):
            # Now: after the wait it might be behind what the next owner has committed by then.
            await self._commits.flush(pull.queue)
        while self._busy(pull, until := min(deadline, self._stop_by)) and clock.monotonic() < until:
            await pull.quiet.wait(until)
        return self._busy(pull)

    # What became of messages: the group's side of PullLoop

    def _busy(self, pull: PullLoop, until: float = 0.0) -> int:
        """Handlers of the queue that run, or are to until then, and copies of its messages that are not durable yet."""
        if self.order is not None:
            return int(self.order.crew.is_busy(pull.queue, int(until * 1000)))
        settler = self._settler if self.alone is None else self.alone.again
        return pull.running + settler.pending_for(pull.flow.window)

    def left(self, queue: PullLoop, ended: int, *, is_late: bool = False) -> None:
        """A worker left a chunk: once a chunk, not once a message."""
        if ended and (handling := self.plan.handling.get(queue.queue.topic)) is not None:
            handling.undecodable.row = 0
        if is_late:
            self.counts.late += ended
        else:
            self.counts.handled += ended
        self.last_activity = self._world.clock.monotonic()
        if queue.flow.state is QueueState.RETIRING:
            queue.quiet.ring()

    # Parts

    def _ordering(self, member: str) -> Ordering:
        plan = self.plan
        return Ordering(
            plan.name, member, concurrency=plan.settings.concurrency, max_retries=plan.max_retries,
            stuck_after_ms=plan.settings.stuck_after, brokers=self._cluster.brokers, world=self._world, tree=self._tree,
            reports=self._reports, side=self, counts=self.counts, offsets=self.offsets, owned=self.owned,
            restart=self.start_anew, decide=decide_broadcasting if plan.broadcasting else decide_in_order,
            no_leases=NoLeases() if plan.broadcasting else None, listeners=plan.listeners,
        )  # fmt: skip

    def start_anew(self, pull: PullLoop) -> None:
        """End what the loop is at, and have it ask its flow anew."""
        self._tasks.pop(pull.queue).cancel()
        self._run(pull)

    def handling_for(self, message: Message) -> Handling | None:
        """How a message is run that came by another way than a pull."""
        is_retry = message.topic == self.retry_topic  # it has lost its own topic's name
        return self._handling_of(message.topic) if is_retry else self.plan.handling.get(message.topic)

    def _handling_of(self, topic: str) -> Handling:
        return self._retry_handling if topic == self.retry_topic else self.plan.handling[topic]

    @property
    def is_caught_up(self) -> bool:
        """Every owned queue has handled what its broker had, as of the last answers."""
        return (
            bool(self.owned)
            and not self._settler.pending
            and not (self.alone and self.alone.again.pending)
            and all(pull.flow.caught_up and pull.flow.window.is_empty for pull in self.owned.values())
        )

    def connection_made(self) -> None:
        """A broker is there (again): what could be sent nowhere is tried at once."""
        self._settler.hurry()

    @property
    def cannot_send_back(self) -> int:
        """Failed messages of which no broker keeps a copy yet, though each way was tried."""
        return self._settler.stuck + (self.order.crew.unsent if self.order is not None else 0)

    def blocked_because(self, pull: PullLoop) -> str | None:
        """What keeps the queue's messages from ending."""
        if self.order is not None:
            return self.order.reason(pull.queue)
        if self.crews.hanging:
            return f"{self.crews.hanging} places are empty: handlers that were given up do not end"
        stuck = self._settler.stuck_because(pull.flow.window)
        return stuck or self._cluster.retry_rooms.complaint(self.plan.name, pull.queue.broker)

    def connection_lost(self, address: str) -> None:
        """A broker may have been started anew, and have forgotten who holds which queue."""
        if self.order is not None:
            self.order.leases.connection_lost(address)

    def ring_all(self) -> None:
        """There is room in the budget again: whoever waited for it asks once more."""
        for pull in self.owned.values():
            if pull.flow.held_because == "budget":
                pull.bell.ring()

    def __repr__(self) -> str:
        return f"<ConsumerGroup {self.plan.name}: {len(self.owned)} queues, {self.counts}>"
