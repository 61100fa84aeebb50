"""App: a whole consuming application, from the first connection to the last confirmed offset."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import structlog

from framework.client.cluster import Cluster
from framework.client.producer import Producer
from framework.core.budget import Budget
from framework.declare import Consumer
from framework.errors import ConfigurationError, nearest
from framework.hooks.host import PluginHost
from framework.model.durations import to_ms
from framework.model.message import Message
from framework.model.queue import MessageQueue
from framework.model.snapshot import Snapshot
from framework.model.subscription import Subscription
from framework.net.real_world import real_world
from framework.net.task_tree import TaskTree
from framework.ports import World
from framework.runtime import build, connect
from framework.runtime.asked import AskedApp
from framework.runtime.connect import cluster_options, heartbeat_of, wait_for_a_broker
from framework.runtime.dormant import Dormant
from framework.runtime.gates import Gates
from framework.runtime.group import ConsumerGroup
from framework.runtime.joining import Joining
from framework.runtime.life import Life
from framework.runtime.observe import idle_ms, picture, total
from framework.runtime.plan import PLAN_FIELDS, GroupPlan
from framework.runtime.remembering import Onces, close_onces
from framework.runtime.reports import OnEvent, Reports
from framework.runtime.stalls import StallWatch
from framework.runtime.subscribing import asked_by, changed, check_open, dated, with_consumer, without_topic
from framework.runtime.taken import TakenGroups
from framework.runtime.tracing import close_traces, start_traces
from framework.runtime.watching import start_census, start_clocks, start_standstill
from framework.services.census import CensusLoop
from framework.services.clocks import AlignedClock
from framework.services.consume_trace import ConsumeTrace
from framework.services.heartbeat import HeartbeatLoop
from framework.services.inbound import Inbound
from framework.services.publishing import Means
from framework.services.pull import Pulls
from framework.services.resources import Resources
from framework.services.standstill import Standstill
from framework.services.supervise import supervised
from framework.services.work import Counts
from framework.settings.changes import Kind, changes, taken_over
from framework.settings.schema import CONCURRENCY_MAX, AppSettings

if TYPE_CHECKING:
    from pathlib import Path

log = structlog.get_logger()


class App:
    """Handlers, settings and plugins that run together, as one member of their groups."""

    IS_APPLICATION: ClassVar = True
    """For `declare`, which knows no runtime: a parameter that is annotated so is given the application."""

    def __init__(
        self,
        settings: AppSettings,
        consumers: Sequence[Consumer[..., Any]],
        *,
        world: World | None = None,
        plugins: PluginHost | None = None,
    ) -> None:
        self.settings = settings
        self.consumers = tuple(consumers)
        self._clock = AlignedClock((world := world or real_world()).clock)
        self.world = replace(world, clock=self._clock)
        self.plugins = plugins or PluginHost(settings.plugins, settings)
        self.plugins.calls.now = self.world.clock.monotonic
        self.on_event: OnEvent | None = None
        """Told of each settled delivery. Set it before `run`; None costs nothing."""
        self._joining = Joining(settings.app, self.world)
        self.worker = 0
        """Which of several processes with one parent; broadcasting groups keep their offsets by it."""
        self.cluster: Cluster | None = None
        """The connection to the cluster, while running. Plugins may send with `Producer(cluster=app.cluster)`."""
        self._producer: Producer | None = None
        """For what handlers publish; made when the first does."""
        self._groups: list[ConsumerGroup] = []
        self._traces: dict[str, ConsumeTrace] = {}
        self._onces: Onces = {}
        self._taken = TakenGroups(self.world.workers)
        self._dormant = Dormant()
        self._standstill: Standstill | None = None
        self._censuses: list[CensusLoop] = []
        self._resources = Resources([each for consumer in consumers for each in asked_by(consumer)], self)
        self._budget = Budget(settings.app.budget, self._budget_changed)
        self._drain_ms = settings.app.drain
        self._accepted = asyncio.Event()
        # A start that still waits for a broker does so no longer when its end is asked for.
        self._life = Life(f"application {settings.app.name!r}", self._accepted.set, self._forked)
        self._joining.life = self._life
        self._started_ms = 0

    @classmethod
    def from_yaml(cls, path: str | Path) -> App:
        """The application that a settings file describes, with the handlers that it names."""
        from framework.runtime.collect import collect
        from framework.settings.sources import load

        settings = load(path)
        return cls(settings, collect(settings))

    # Life

    async def run(self) -> None:
        """Consume until `stop` is called, then drain. Cancelling it stops at once, without draining."""
        with self._life.lived():
            self._started_ms = self.world.clock.now_ms()
            await self._run()

    async def _run(self) -> None:
        tree = TaskTree()
        reports = Reports(self.on_event, self.world.workers, self.settings.cluster.namespace)
        self._planned = partial(
            build.plans, host=self.plugins, reports=reports, world=self.world, worker=self.worker,
            means=Means(self._resources.values, self._publish, self.world.workers.run), traces=self._traces,
            onces=self._onces,
        )  # fmt: skip
        plans = self._planned(self.settings, self.consumers)
        self._taken.take(self.settings, self.consumers, self.plugins)
        admin = self.settings.admin
        inbound = Inbound(
            AskedApp(lambda: self._groups, self.snapshot, self.world),
            tree,
            may_reset=admin.reset,
            may_consume=admin.direct,
        )
        cluster = self.cluster = Cluster(
            self.world,
            cluster_options(self.settings, self.member),
            on_request=inbound,
            on_connected=self._connected,
            on_disconnected=self._disconnected,
        )
        stalls = StallWatch(self.world.clock)
        try:
            if self.world.watchman is not None:
                stalls.start(self.world.watchman)
            await self._resources.open()
            self._start(cluster, plans, reports, tree)
            start_traces(plans, cluster, tree)
            for group in self._groups:
                if group.alone is not None:
                    group.alone.offsets.open()
            await self._introduce(cluster, tree)
            for group in self._groups:
                group.start()
                self._censuses.append(start_census(group, self.member, cluster, self.world, tree))
            self._taken.start(tree)
            self._dormant.join = lambda plan: self._join(plan, cluster, reports, tree)
            Gates(self._dormant, self._resources.values, self.world.workers).start(tree)
            self._standstill = start_standstill(lambda: self._groups, cluster, self.world, tree)
            await wait_for_a_broker(self._accepted, self.settings.cluster)
            log.info("app started", app=self.settings.app.name, member=self.member, groups=len(plans))
            self.plugins.calls.app_started(self)
            await self._life.asked.wait()
            log.info("app stopping", app=self.settings.app.name, drain_ms=self._drain_ms)
            self.plugins.calls.app_stopping(self)
            self._dormant.join = None
            await self._drain(cluster)
            await close_traces(plans)
            self._joining.check()
        finally:
            stalls.stop()
            await tree.close()
            await cluster.close()
            for group in self._groups:
                if group.alone is not None:
                    group.alone.offsets.close()
            await close_onces(self._onces)
            await self._resources.close(self._drain_ms)
        log.info("app stopped", app=self.settings.app.name, abandoned=self.counts.abandoned)

    async def _publish(self, message: Message) -> None:
        if self._producer is None:
            self._producer = Producer(cluster=self.cluster)
        await self._producer.send(message)

    async def stop(self, drain: str | float | None = None) -> None:
        """Let running handlers end within the limit, confirm offsets, leave the groups; returns when that is done.

        Within a handler, a hook or a resource it returns at once: what runs there is itself waited for.
        """
        if drain is not None:
            self._drain_ms = to_ms(drain)
        await self._life.over()

    def stop_soon(self, drain: str | float | None = None) -> None:
        """Ask for the same without waiting: from plain handlers, other threads and signal handlers."""
        if drain is not None:
            self._drain_ms = to_ms(drain)
        self._life.ask()

    def _forked(self) -> None:
        """In a child process: another member, or none. Whoever comes back from a handler there starts no other."""
        self._joining = Joining(self.settings.app.model_copy(update={"instance": ""}), self.world)
        for group in self._groups:
            if group.order is not None:
                group.order.crew.resize(0)
            else:
                group.crews.adopt(group.plan, 0)

    # Changes while it runs

    def start_consumer(self, group: str) -> None:
        """Have a group join that `autostart: false` keeps back; from then on it is as any other."""
        self._dormant.start(group, [each.plan for each in self._groups])

    def _join(self, plan: GroupPlan, cluster: Cluster, reports: Reports, tree: TaskTree) -> None:
        group = self._group(dated(plan, self._clock.now_ms()), cluster, reports, tree)
        if group.alone is not None:
            group.alone.offsets.open()
        self._join_late(group, cluster, tree)

    def _join_late(self, group: ConsumerGroup, cluster: Cluster, tree: TaskTree) -> None:
        self._groups.append(group)
        tree.start(self._start_late(group, cluster, tree), name=f"start {group.plan.name}")

    async def _start_late(self, group: ConsumerGroup, cluster: Cluster, tree: TaskTree) -> None:
        self._accepted.clear()
        self._heartbeats.now()
        with suppress(TimeoutError):  # then its loops go on trying, as at any start
            async with asyncio.timeout(self.settings.cluster.request_timeout / 1000):
                await self._accepted.wait()  # so that the first rebalance already counts us
        group.start()
        self._censuses.append(start_census(group, self.member, cluster, self.world, tree))
        log.info("group started", group=group.plan.own_name)

    def pause(self, group: str) -> None:
        """Have this group start no handler and pull nothing until `resume`; its queues stay its own."""
        self._change(group, is_paused=True)

    def resume(self, group: str) -> None:
        """Let a paused group go on where it stopped."""
        self._change(group, is_paused=False)

    def resize(self, group: str, concurrency: int) -> None:
        """Have so many handlers of this group run at once from now on; those that run now end in peace."""
        if not 1 <= concurrency <= CONCURRENCY_MAX:
            raise ConfigurationError(
                f"resize({group!r}, {concurrency}): write a number from 1 to {CONCURRENCY_MAX}; to have none, pause it"
            )
        self._change(group, concurrency=concurrency)

    def subscribe(self, consumer: Consumer[..., Any]) -> None:
        """Have a running group consume one topic more, or the same one otherwise (tags, condition, handler).

        Its queues are pulled within a second or so. Those of a topic consumed otherwise are left and taken anew.
        """
        self._running_group(consumer.spec.group)
        check_open(consumer, self._resources.values)
        self._resubscribe(consumer.spec.group, consumer.spec.topic, with_consumer(self.consumers, consumer))

    def unsubscribe(self, group: str, topic: str) -> None:
        """Have a running group leave this topic: handlers end, offsets are confirmed, locks given back."""
        self._running_group(group)
        self._resubscribe(group, topic, without_topic(self.consumers, group, topic))

    def _resubscribe(self, name: str, topic: str, consumers: tuple[Consumer[..., Any], ...]) -> None:
        group = self._running_group(name)
        plan = changed(group.plan, self._planned(self.settings, consumers), topic)
        self.consumers = consumers
        group.resubscribe(plan)
        self._heartbeats.now()
        log.info("group subscribed anew", group=name, topics=[each.topic for each in plan.subscriptions])

    def _change(self, name: str, **fields: Any) -> None:
        group = self._running_group(name)
        group.adopt(replace(group.plan, **fields))
        log.info("group changed", group=name, **fields)

    def _running_group(self, name: str) -> ConsumerGroup:
        self._life.check_process()
        for group in self._groups:
            if name in {group.plan.own_name, group.plan.name}:
                return group
        running = [group.plan.own_name for group in self._groups]
        hint = nearest(name, running) or f"; running: {', '.join(running) or 'none yet'}"
        raise ConfigurationError(f"no group {name!r} runs here{hint}")

    def adopt(self, settings: AppSettings) -> None:
        """Take over what may change while it runs. Where these settings could not be started with, ConfigurationError
        is raised and nothing has changed.
        """
        wanted = [change for change in changes(self.settings, settings) if change.kind is Kind.LIVE]
        reports = Reports(None, self.world.workers)
        plans = build.plans(settings, self.consumers, self.plugins, reports, self.world, onces=self._onces)
        self.settings = taken_over(self.settings, wanted)
        for change in wanted:
            if change.path == ("app", "budget"):
                self._budget.resize(change.after)
            elif change.path == ("app", "drain"):
                self._drain_ms = change.after
        for planned in plans:
            name = planned.own_name
            changed_here = {PLAN_FIELDS[change.path[2]] for change in wanted if change.path[:2] == ("consumers", name)}
            fields = {field: getattr(planned, field) for field in sorted(changed_here)}
            self._dormant.adopt(name, fields)
            for group in self._groups:
                if fields and group.plan.name == planned.name:
                    group.adopt(replace(group.plan, **fields))

    def _start(self, cluster: Cluster, plans: list[GroupPlan], reports: Reports, tree: TaskTree) -> None:
        world = self.world
        self._heartbeats = HeartbeatLoop(
            cluster.brokers,
            lambda: heartbeat_of(self.member, [group.plan for group in self._groups]),
            world.clock,
            world.chance,
            self._heartbeat_accepted,
        )
        self._groups = [self._group(plan, cluster, reports, tree) for plan in self._dormant.keep(plans)]
        cluster.routes.on_change(self._routes_changed)
        tree.start(supervised("routes", cluster.routes.run, world.chance), name="routes")

    def _group(self, plan: GroupPlan, cluster: Cluster, reports: Reports, tree: TaskTree) -> ConsumerGroup:
        def pulls(subscription: Subscription, queue: MessageQueue) -> Pulls:
            return cluster.puller(plan.name, subscription, queue, batch=plan.pull_batch)

        return ConsumerGroup(
            plan,
            member=self.member,
            world=self.world,
            cluster=cluster,
            budget=self._budget,
            pulls=pulls,
            reports=reports,
            heartbeat_now=self._heartbeats.now,
            doubled=lambda group: tree.start(self._joining.doubled(cluster, group, self.member), name="doubled"),
            tree=tree,
        )

    async def _introduce(self, cluster: Cluster, tree: TaskTree) -> None:
        """Find the brokers and say who we are, before the first rebalance. What fails is tried again by the loops."""
        await connect.find_brokers(cluster, [group.plan for group in self._groups], self._taken.topics)
        await start_clocks(self._clock, self._groups, cluster, self.world, tree)
        self._groups, held = await self._joining.look_around(cluster, self._groups, self.member)
        self._joining.start_held(held, lambda group: self._join_late(group, cluster, tree), tree)
        tree.start(supervised("heartbeats", self._heartbeats.run, self.world.chance), name="heartbeats")
        if cluster.brokers.addresses():
            try:
                async with asyncio.timeout(self.settings.cluster.request_timeout / 1000):
                    await self._accepted.wait()
            except TimeoutError:
                log.warning("no heartbeat accepted yet", brokers=cluster.brokers.addresses())

    async def _drain(self, cluster: Cluster) -> None:
        """In this order: no new queues, no new handlers, running ones end, offsets confirmed, groups left."""
        tree = TaskTree()
        stopping = [tree.start(group.stop(self._drain_ms), name=f"stop {group.plan.name}") for group in self._groups]
        stopping.append(tree.start(self._taken.stop(self._drain_ms), name="stop engines"))
        for task in stopping:
            await task
        for group in self._groups:
            await cluster.brokers.leave(self.member, group.plan.name)

    # What happens meanwhile

    def _heartbeat_accepted(self, address: str) -> None:
        self._accepted.set()
        for group in self._groups:
            group.joined(address)

    def _connected(self, address: str) -> None:
        """A fresh connection knows nothing of us; members are keyed by connection."""
        self._heartbeats.now(address)
        for group in self._groups:
            group.connection_made()

    def _disconnected(self, address: str) -> None:
        for group in self._groups:
            group.connection_lost(address)

    def _routes_changed(self, topic: str) -> None:
        for group in self._groups:
            if topic in group.subscriptions:
                group.members_changed()

    def _budget_changed(self, *, has_room: bool) -> None:
        if self.cluster is not None:
            self.cluster.pause_pulls(paused=not has_room)
        if has_room:
            for group in self._groups:
                group.ring_all()

    # Pictures

    @property
    def member(self) -> str:
        """How brokers and other members know this process (the client id)."""
        return self._joining.member(self.worker)

    @property
    def counts(self) -> Counts:
        """What became of messages, all groups together."""
        return total(group.counts for group in self._groups)

    def idle_ms(self) -> int:
        """For how long nothing was handled and nothing was left to handle; 0 while there is work."""
        return idle_ms(self._groups, self._taken.idle_ms, self.world.clock) if self.is_ready else 0

    @property
    def hanging(self) -> int:
        """Places of handlers, all groups together, that are taken by others which were given up and do not end."""
        return sum(group.crews.hanging for group in self._groups)

    @property
    def is_ready(self) -> bool:
        """Every group has joined and is balanced, with all its workers, and none waits for its `ready_when`; brokers
        take back what fails, no group is orderly in part, and no queue stands still.
        """
        return (
            self._accepted.is_set()
            and bool(self._groups or self._dormant.names or self._taken)
            and all(
                group.is_balanced and not group.cannot_send_back and not group.crews.hanging for group in self._groups
            )
            and not self._joining.held
            and not any(census.is_mixed_up for census in self._censuses)
            and not self._dormant.gated
            and not (self._standstill is not None and self._standstill.named)
        )

    def snapshot(self) -> Snapshot:
        """The application as it is now."""
        return picture(
            self.settings, self.member, self._groups, self._budget, self._clock,
            is_ready=self.is_ready, started_ms=self._started_ms, dormant=self._dormant.names, calls=self.plugins.calls,
            held_back=self._joining.held, host=self._joining.host, session=self._joining.session,
            engines=self._taken.pictures(),
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"<App {self.settings.app.name} {self.member}: {len(self._groups)} groups>"
