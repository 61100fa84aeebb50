"""ConsumerGroup: one group's state and loops, and the orders in which it takes queues, leaves them and stops."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

import structlog

from framework.client.cluster import Cluster
from framework.client.popper import ANY_RETRY
from framework.core import limits
from framework.core.assignment import Assignment, AssignmentChange, Moves
from framework.core.budget import Budget
from framework.core.offsets import OffsetTable, Reached
from framework.core.queue_flow import QueueFlow, QueueState
from framework.core.skipping import Skipping
from framework.core.statistics import Histogram, Rates
from framework.model.message import Message
from framework.model.queue import MessageQueue
from framework.model.reserved import retry_topic
from framework.net.task_tree import TaskTree
from framework.net.wakeup import Wakeup
from framework.ports import World
from framework.runtime.group.kind import GroupKind, kind_of
from framework.runtime.group.parts import GroupParts
from framework.runtime.group.plan import GroupPlan, Handling, retry_handling
from framework.runtime.group.popping import is_any
from framework.runtime.group.progressing import Progressing
from framework.runtime.report.stacks import place_of
from framework.runtime.reports import GroupReports, Reports
from framework.services.clocks import Ages
from framework.services.offsets.commit import CommitLoop
from framework.services.offsets.nothing_kept import NOTHING_KEPT
from framework.services.pool.run import MessageCounts
from framework.services.queue.intake import Part, Skips
from framework.services.queue.leaving import Leaving
from framework.services.queue.pacing import Paced, Pacing
from framework.services.queue.popped import PopQueue
from framework.services.queue.position import Arrivals, StartingPoint, find_start
from framework.services.queue.pull import PullLoop, divide_bounds
from framework.services.rebalance import RebalanceLoop
from framework.services.standstill import HeldUp
from framework.services.supervise import supervise
from framework.wire.exchanges import OFFSET_MAX

log = structlog.get_logger()


class ConsumerGroup:
    """The owner of a group's offsets, assignment and loops. What differs between groups is its `kind`'s."""

    def __init__(
        self,
        plan: GroupPlan,
        *,
        member: str,
        world: World,
        cluster: Cluster,
        budget: Budget,
        reports: Reports,
        heartbeat_now: Callable[..., None],
        doubled: Callable[[ConsumerGroup], object],
        ages: Ages,
        tree: TaskTree,
    ) -> None:
        self.plan = plan
        self.clock = world.clock
        self.counts = MessageCounts()
        self.offsets = OffsetTable()
        self.assignment = Assignment()
        self.skipping = Skipping(plan.skip) if plan.skip is not None else None
        self.pacing = Pacing(plan.settings.rate, world.clock)
        self.owned: dict[MessageQueue, PullLoop] = {}
        self.rates: dict[str, Rates] = {}
        """Topic -> how it goes; kept when its queues go elsewhere, for what happened in the last hour."""
        self.last_activity = world.clock.monotonic()
        self.moves = Moves()
        self.retry_topic = retry_topic(plan.name)
        self.subscriptions = plan.wanted
        self.handlings = {
            **plan.handling,
            self.retry_topic: retry_handling(plan, world.workers, lambda: self.kind.pool.trials),
        }
        """Topic -> how its messages are run; a message of the retry topic has lost its own topic."""
        self._world, self._cluster, self._budget, self._tree, self._ages = world, cluster, budget, tree, ages
        self._reports = GroupReports(reports, world.clock, member, keeps_copies=plan.broadcasting is None)
        self._tasks: dict[MessageQueue, asyncio.Task[None]] = {}
        self._holding: dict[MessageQueue, asyncio.Task[None]] = {}
        """Of popped queues: renews and acknowledges what they hold."""
        self._resets: dict[MessageQueue, asyncio.Task[None]] = {}  # on their way to be stored; nobody begins before
        self._reached = Reached()
        self._arrivals = Arrivals(plan.name)
        self._heartbeat_now, self._released = heartbeat_now, Wakeup()
        parts = GroupParts(
            plan, member, world, cluster, tree, self._reports, self.counts, self.offsets, self.owned, self.handlings
        )
        self.kind: GroupKind = kind_of(parts, self, self.start_anew)
        self._commits = CommitLoop(
            plan.name, self.kind.offsets, self.offsets, self.owned.values,
            others_commit=plan.broadcasting is None, listeners=plan.listeners, stored=self.kind.stored,
        )  # fmt: skip
        self._leaving = Leaving(plan.name, self.kind.pool, self._commits, self.offsets, self.counts, world.clock)
        self._rebalancing: asyncio.Task[None] | None = None

        def offered(topic: str, queues: list[MessageQueue]) -> None:
            self._arrivals.seen(topic, queues, world.clock.monotonic_ms())
            self._reached.offered(queues, self.assignment.of(topic))

        self.rebalance = RebalanceLoop(
            plan.name, member, tuple(self.subscriptions), self.kind.strategy, self.assignment,
            routes=self.kind.routes, brokers=self.kind.members, clock=world.clock, chance=world.chance,
            changed=self._assignment_changed, not_a_member=heartbeat_now, doubled=lambda: doubled(self),
            offered=offered,
        )  # fmt: skip
        self.progress = NOTHING_KEPT if plan.progress is None else Progressing(parts, plan.progress, self.rebalance)
        """Keeps what has ended above gaps."""

    # Life

    def start(self) -> None:
        """Start the loops. Pools come first: a chunk is never offered to nobody."""
        name, tree, chance = self.plan.name, self._tree, self._world.chance
        self.kind.pool.start()
        if self.plan.settings.paused:
            self.adopt(self.plan)
        supervise(tree, f"commit {name}", self._commits.run, chance)
        supervise(tree, f"lines {name}", partial(self._reports.run, lambda: self.plan), chance)
        self.progress.start()
        self._rebalancing = supervise(tree, f"rebalance {name}", self.rebalance.run, chance)

    def adopt(self, plan: GroupPlan) -> None:
        """Go on as this plan says: how many handlers run at once, if any, and how much is held.

        A paused group starts nothing: not what is pulled already, and nothing is pulled. Its queues stay its own. Other
        members get the popped messages that it has not started, also where it holds too many from now on.
        """
        if self.plan.settings.paused and not plan.settings.paused:
            self.rebalance.now()  # notices may have been lost meanwhile, and nobody looked at what was pulled
        self.plan = plan
        self.pacing.change(plan.settings.rate)
        self.kind.pool.trials.adopt(plan.settings.breaker)
        self.kind.pool.adopt(plan, 0 if plan.settings.paused else plan.settings.concurrency)
        for pull in self.owned.values():
            was_paused, pull.flow.is_paused = pull.flow.is_paused, plan.settings.paused
            if plan.settings.paused and not was_paused and pull.flow.state is QueueState.FLOWING:
                self.start_anew(pull)  # the long poll under way would bring messages for a while yet
                self.offsets.mark_unsent(pull.queue)
        divide_bounds(self.owned, self.plan.flow_limits)
        for pull in self.owned.values():
            is_too_many = pull.flow.window.unfinished > pull.flow.bounds.messages_max
            if pull.popped is not None and (plan.settings.paused or is_too_many):
                pull.give_back(self.kind.pool.take_back(pull))

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
        self.handlings |= {
            **plan.handling,
            self.retry_topic: retry_handling(plan, self._world.workers, lambda: self.kind.pool.trials),
        }
        self.kind.pool.handlings_changed()
        for topic in before:
            if topic not in wanted:
                self._assignment_changed(topic, self.assignment.put(topic, ()))
        for topic in dict.fromkeys((*differs, *([] if plan.broadcasting else [self.retry_topic]))):
            self._leave_all([queue for queue in self.owned if queue.topic == topic])
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

    def not_a_member(self, queue: MessageQueue) -> None:
        for address in self._cluster.routes.replicas_of(queue.broker).values():
            self._heartbeat_now(address)

    async def stop(self, drain_ms: int) -> None:
        """Leave every queue: nothing new is started, what runs may end within the limit, offsets are confirmed."""
        deadline = self._world.clock.monotonic() + drain_ms / 1000
        self._leaving.stop(deadline)
        if self._rebalancing is not None:
            self._rebalancing.cancel()
        for pull in self.owned.values():
            pull.quiet.ring()  # those that are being left already have no more time than this
        staying = [pull for pull in self.owned.values() if pull.flow.state is not QueueState.RETIRING]
        for pull in staying:
            self._begin_leaving(pull)  # now: before its task begins, whoever else leaves a queue would leave it, too
        for task in [self._tree.start(self._leave(pull, deadline), name=f"leave {pull.queue}") for pull in staying]:
            await task
        while self.owned:  # taken away by a rebalance just before, and still being left
            await self._released.wait()
        self._reports.close(self.plan)

    # Queues come and go

    def _assignment_changed(self, topic: str, change: AssignmentChange) -> None:
        self.moves.add(change)
        self._leave_all(change.lost)
        for queue in change.gained:
            self._take(queue)
        if change and self.plan.listeners.assignment_changed is not None:
            self.plan.listeners.assignment_changed(self.plan.name, change.gained, change.lost)

    def _leave_all(self, queues: Iterable[MessageQueue]) -> None:
        deadline = self._world.clock.monotonic() + limits.DRAIN_MS / 1000
        for queue in queues:
            pull = self.owned.get(queue)
            if pull is not None and pull.flow.state is not QueueState.RETIRING:
                self._begin_leaving(pull)
                self._tree.start(self._leave(pull, deadline), name=f"leave {queue}")

    def _take(self, queue: MessageQueue) -> None:
        """Begin with a queue that is ours. One that is still being left is taken when that has ended."""
        if queue in self.owned or self._leaving.is_stopping or self._is_switching(queue):
            return
        plan, world, pool, handling = self.plan, self._world, self.kind.pool, self.handlings[queue.topic]
        jitter = world.chance.random()
        flow = QueueFlow(queue, self._budget, plan.flow_limits, jitter=jitter, needs_lease=plan.needs_locks)
        popped = self._pops(queue, flow) if is_any(queue) else None
        pulls = popped or self._cluster.puller(
            plan.name, self.subscriptions[queue.topic], queue, batch=plan.settings.pull_batch
        )
        pull = PullLoop(
            flow,
            pulls=self.kind.pulls(pulls),
            pool=pool.of(handling),
            call=handling.call,
            not_success=pool.not_success,
            find_start=lambda: self._find_start(flow),
            group=self,
            rates=self.rates.setdefault(queue.topic, self._rates()),
            parts=self._intake_of(queue, handling),
            progress=NOTHING_KEPT if popped is not None else self.progress.of(queue),
            popped=popped,
            hold_back=pool.trials.pulled,
            breaker=pool.trials.of(plan.counts_for(queue.topic)),
            is_retried=queue.topic == self.retry_topic,
        )
        flow.run, flow.reached = pull, self._reached.take(queue)
        flow.is_popped = popped is not None
        flow.is_paused, flow.damage.skips = plan.settings.paused, plan.settings.damaged == "skip"
        self.owned[queue] = pull
        if plan.flow_limits.is_shared:
            divide_bounds(self.owned, plan.flow_limits)
        pool.own(pull, handling)
        pool.trials.own(pull)
        self._run(pull)
        if popped is not None:
            popped.begin(lambda: flow.window.chunks)
            self._holding[queue] = supervise(self._tree, f"hold {queue}", popped.run, world.chance)

    def _pops(self, queue: MessageQueue, flow: QueueFlow) -> PopQueue:
        plan, subscription = self.plan, self.subscriptions[queue.topic]
        popper = self._cluster.popper(
            plan.name, subscription, queue, plan.settings.start, batch=min(plan.settings.pull_batch, limits.POP_BATCH),
            invisible_ms=plan.settings.invisible,
        )  # fmt: skip
        tags = frozenset(subscription.tags)

        def is_wanted(message: Message) -> bool:
            return not tags or message.tags in tags

        return PopQueue(
            plan.name, queue, popper, self.clock, self.pacing, is_wanted, self._tree, lambda: flow.bounds.portion
        )

    def _is_switching(self, queue: MessageQueue) -> bool:
        """Whether queues of the topic are still to be left that were taken the other way, by pulls or by pops."""
        if queue.number == ANY_RETRY:
            return False
        others = [each for each in self.owned if each.topic == queue.topic and each.number != ANY_RETRY]
        return any(is_any(each) is not is_any(queue) for each in others)

    def _rates(self) -> Rates:
        return Rates(self._world.clock.monotonic_ms(), Histogram() if self.plan.keeps_times else None)

    def _intake_of(self, queue: MessageQueue, handling: Handling) -> list[Part]:
        paced = Paced(self.pacing, handling.batching.count if handling.batching is not None else 1)
        if self.skipping is None or queue.topic == self.retry_topic:
            return [paced]  # what came back for a retry was wanted once, and is older than anything
        return [Skips(self.skipping, self.plan.name, queue, self._ages), paced]

    def _run(self, pull: PullLoop) -> None:
        self._tasks[pull.queue] = supervise(self._tree, f"pull {pull.queue}", pull.run, self._world.chance)

    def reset(self, queue: MessageQueue, offset: int) -> bool:
        """Go on from `offset`, now and after a restart; False where the queue is not ours to move.

        The loop starts anew: the pull that is under way is never answered into the new position.
        """
        pull = self.owned.get(queue)
        self._reached.take(queue)
        if pull is None or not 0 <= offset <= OFFSET_MAX:
            return False
        if pull.flow.can_reset:
            pull.reset(offset)
            self.start_anew(pull)
        elif pull.flow.state is QueueState.CLAIMED:
            pull.flow.reached = None  # it begins at what is stored, once it has its lock
        else:
            return False
        self._resets[queue] = self._tree.start(self._commits.store(queue, offset), name=f"reset {queue}")
        return True

    async def _find_start(self, flow: QueueFlow) -> StartingPoint:
        queue = flow.queue
        if (reset := self._resets.pop(queue, None)) is not None:
            await asyncio.shield(reset)
        now_ms, start = self._world.clock.monotonic_ms(), self.plan.settings.start
        policy = self._arrivals.policy_for(queue, start, now_ms, is_anew=flow.is_sent_back)
        return await find_start(self.kind.offsets, self.plan.name, queue, policy, self._ages.asked_ms)

    def _begin_leaving(self, pull: PullLoop) -> None:
        is_handed_on = self._leaving.is_stopping or pull.queue not in self.assignment.of(pull.queue.topic)
        pull.flow.revoke()
        self.kind.pool.leaving(pull, is_handed_on=is_handed_on and pull.queue.topic in self.subscriptions)
        self._tasks.pop(pull.queue).cancel()

    async def _leave(self, pull: PullLoop, deadline: float) -> None:
        await self._leaving.finish(pull, deadline)
        if (holding := self._holding.pop(pull.queue, None)) is not None:
            holding.cancel()
        del self.owned[pull.queue]
        reached, where = pull.flow.reached, self._cluster.brokers.where(pull.queue)
        if reached is not None and pull.popped is None and not self._cluster.pool.is_connected(where):
            self._reached.note(pull.queue, reached)
        self.kind.pool.trials.left(pull)
        if self.plan.flow_limits.is_shared:
            divide_bounds(self.owned, self.plan.flow_limits)
        self._released.ring()
        for queue in self.assignment.of(pull.queue.topic):
            self._take(queue)

    # As what its queues need of their group

    def left(self, queue: PullLoop, ended: int, *, is_late: bool = False) -> None:
        """A worker left a chunk: once a chunk, not once a message."""
        if ended and (handling := self.plan.handling.get(queue.queue.topic)) is not None:
            handling.undecodable.row = 0
        if ended and not is_late and queue.breaker.failures:
            self.kind.pool.trials.succeeded(queue.breaker)
        if is_late:
            self.counts.late += ended
        else:
            self.counts.handled += ended
        self.last_activity = self._world.clock.monotonic()
        if queue.flow.state is QueueState.RETIRING:
            queue.quiet.ring()

    def start_anew(self, pull: PullLoop) -> None:
        """End what the loop is at, and have it ask its flow anew."""
        self._tasks.pop(pull.queue).cancel()
        self._run(pull)

    def blocked_because(self, pull: PullLoop) -> str | None:
        """What keeps the queue's messages from ending."""
        if pull.flow.is_tripped:
            return "breaker"
        return self.kind.pool.blocked_because(pull)

    def held_up_by(self, pull: PullLoop) -> HeldUp | None:
        """The handlers that its messages wait for: its own, or those that have all places; None where for none."""
        running, concurrency = self.kind.pool.at_work(), self.plan.settings.concurrency
        own = [each for each in running if each.queue == pull.queue]
        if not own and len(running) < concurrency:
            return None
        oldest = min(own or running, key=lambda each: each.started)
        return HeldUp(
            max(self._world.clock.monotonic_ms() - round(oldest.started * 1000), 0),
            len(running),
            concurrency,
            f"{oldest.queue}:{oldest.messages[0].queue_offset}",
            place_of(oldest.worker),
        )

    def __repr__(self) -> str:
        return f"<ConsumerGroup {self.plan.name}: {len(self.owned)} queues, {self.counts}>"
