"""Membership: an application's groups as brokers know them. They are introduced, joined (some later), told of
connections, and left. It knows neither handlers nor plugins, and nothing of who runs the application.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Mapping, Sequence
from functools import partial
from typing import Any

import structlog

from framework.client.cluster import Cluster
from framework.core.budget import Budget
from framework.errors import nearest
from framework.mistakes import GroupNotHere
from framework.net.task_tree import LoopFailures, TaskTree
from framework.ports import World
from framework.runtime.dormant import Dormant, Gates
from framework.runtime.group.group import ConsumerGroup
from framework.runtime.group.plan import GroupPlan
from framework.runtime.group.subscribing import changed, dated
from framework.runtime.joining import Joining, refuse_filters
from framework.runtime.pauses import Pauses
from framework.runtime.plans import connect
from framework.runtime.plans.connect import heartbeat_of, profile_of
from framework.runtime.reports import Reports
from framework.services.call.resources import Values
from framework.services.clocks import Ages, AlignedClock, ClockLoop
from framework.services.consistency import ConsistencyCheck
from framework.services.heartbeat import HeartbeatLoop
from framework.services.room_watch import RoomWatch
from framework.services.standstill import Standstill
from framework.services.supervise import supervise
from framework.settings.changes import SettingChange
from framework.settings.schema import AppSettings
from framework.wire.bodies.route import MASTER

log = structlog.get_logger()


class Membership:
    """One per application; `open` begins it, when there is a cluster to be a member of."""

    member: str
    """How brokers and other members know this process (the client id)."""
    cluster: Cluster
    heartbeats: HeartbeatLoop
    search: connect.BrokerSearch
    ages: Ages
    """By which time to age messages."""
    _clocks: ClockLoop
    _rooms: RoomWatch
    _reports: Reports
    _tree: TaskTree

    def __init__(self, settings: AppSettings, world: World, clock: AlignedClock) -> None:
        self._settings, self._world, self._clock = settings, world, clock
        self.groups: list[ConsumerGroup] = []
        self.dormant = Dormant()
        self.joining = Joining(settings.app, world)
        self.pauses = Pauses(world.clock, lambda group: self.change(group, paused=False))
        self.accepted = asyncio.Event()
        """A broker has taken our heartbeat."""
        self.budget = Budget(settings.app.budget, self._budget_changed)
        self._unheard: dict[str, None] = {}
        """New connections whose broker has taken no heartbeat by them yet."""
        self.consistency_checks: list[ConsistencyCheck] = []
        """What members of each group are like."""
        self.standstill: Standstill | None = None
        """Looks for queues that move nothing; None before the start."""
        self._is_open = False
        self.unheard_because: Callable[[], str] = str
        """Why no broker has taken our heartbeat, as far as that is known, with the way out."""
        self.failed_loops: Mapping[str, LoopFailures] = {}
        """Loops that were started again after an error, by name."""

    def open(self, plans: Sequence[GroupPlan], member: str, cluster: Cluster, reports: Reports, tree: TaskTree) -> None:
        """Make the groups that do not wait for anything. Nobody hears of them yet."""
        self.member, self.cluster, self._reports, self._tree = member, cluster, reports, tree
        self.failed_loops = tree.failed_loops
        self._clocks = ClockLoop(self._clock, cluster.inquiries)
        self.ages = Ages(self._clock, self._clocks)
        cluster.replies.ages = self.ages.now_ms
        self.heartbeats = HeartbeatLoop(
            cluster.brokers,
            lambda: heartbeat_of(self.member, [group.plan for group in self.groups], cluster.introductions.producers),
            self._world.clock,
            self._world.chance,
            self._heartbeat_accepted,
            shortens=self._settings.cluster.heartbeat_v2,
            why_none=lambda: cluster.names.failure,
            nowhere=lambda: self.search.because,
        )
        self.groups = [self._group(plan) for plan in self.dormant.keep(plans)]
        for group in self.groups:
            group.kind.open()
        self._is_open, self.unheard_because = True, lambda: self.heartbeats.trouble
        cluster.brokers.on_unlisted = self.heartbeats.now
        cluster.routes.on_change(self._routes_changed)
        supervise(tree, "routes", cluster.routes.run, self._world.chance)

    def _group(self, plan: GroupPlan) -> ConsumerGroup:
        return ConsumerGroup(
            plan,
            member=self.member,
            world=self._world,
            cluster=self.cluster,
            budget=self.budget,
            reports=self._reports,
            heartbeat_now=self.heartbeats.now,
            doubled=lambda group: self._tree.start(
                self.joining.doubled(self.cluster, group, self.member), name="doubled"
            ),
            ages=self.ages,
            tree=self._tree,
        )

    # Joining

    async def introduce(self, more_topics: Sequence[str], patience: connect.Patience) -> None:
        """Find the brokers and say who we are, and return when one has taken our heartbeat, or our end is asked for:
        groups that began before would only log what follows from there being none.
        """
        cluster, tree, chance = self.cluster, self._tree, self._world.chance
        plans = [group.plan for group in self.groups] or self.dormant.plans
        self.search = connect.BrokerSearch(cluster, plans, more_topics)
        await self.search.once()
        await self._clocks.ask()
        for group in self.groups:  # what they say of themselves is dated by the brokers' time
            group.plan = dated(group.plan, self._clock.now_ms())
            group.subscriptions = group.plan.wanted
        supervise(tree, "clocks", self._clocks.run, chance)
        await refuse_filters([group.plan for group in self.groups], cluster, self.member, tree)
        with patience.paused():
            self.groups, held = await self.joining.look_around(cluster, self.groups, self.member)
        self._rooms = RoomWatch(cluster.retry_rooms, self._sending_back, chance)
        await self._rooms.refuse()
        cluster.routes.on_change(lambda _: self._rooms.soon())
        supervise(tree, "retry queues", self._rooms.run, chance)
        self.joining.start_held(held, self._join_late, tree)
        supervise(tree, "heartbeats", self.heartbeats.run, chance)
        supervise(tree, "broker search", partial(self.search.go_on, chance), chance)
        await patience.over()

    def start(self, values: Values) -> None:
        """Begin to rebalance and to pull; from here on, groups that waited may join. `values` are open resources."""
        for group in self.groups:
            self._start(group)
        self.dormant.join = self.join
        Gates(self.dormant, values, self._world.workers).start(self._tree)
        self.standstill = Standstill(
            lambda: [(group.plan.own_name, group) for group in self.groups], self.cluster.brokers, self._world.clock
        )
        supervise(self._tree, "standstill", self.standstill.run, self._world.chance)

    def _sending_back(self) -> list[tuple[str, tuple[str, ...]]]:
        """The groups that send failed messages back, and their topics: broadcasting ones do not."""
        return [(each.plan.name, tuple(each.subscriptions)) for each in self.groups if not each.plan.broadcasting]

    def _start(self, group: ConsumerGroup) -> None:
        group.start()
        plan, inquiries = group.plan, self.cluster.inquiries
        check = ConsistencyCheck(
            plan.name, plan.subscriptions[0].topic, self.member, lambda: profile_of(group.plan), inquiries,
            self._world.clock, members=lambda: group.rebalance.members,
        )  # fmt: skip
        supervise(self._tree, f"consistency check {plan.name}", check.run, self._world.chance)
        self.consistency_checks.append(check)

    def join(self, plan: GroupPlan) -> None:
        """Have a group join that was kept back until now."""
        group = self._group(dated(plan, self._clock.now_ms()))
        group.kind.open()
        self._join_late(group)

    def _join_late(self, group: ConsumerGroup) -> None:
        self.groups.append(group)
        self._rooms.soon()
        self._tree.start(self._start_late(group), name=f"start {group.plan.name}")

    async def _start_late(self, group: ConsumerGroup) -> None:
        self.accepted.clear()
        self.heartbeats.now()
        await self.accepted.wait()  # so that the first rebalance already counts us
        if self.joining.is_over:
            return
        self._start(group)
        log.info("group started", group=group.plan.own_name)

    # Changes

    def find(self, name: str) -> ConsumerGroup:
        """The running group of this name; raises ConfigurationError where there is none."""
        for group in self.groups:
            if name in {group.plan.own_name, group.plan.name}:
                return group
        running = [group.plan.own_name for group in self.groups]
        hint = nearest(name, running) or f"; running: {', '.join(running) or 'none yet'}"
        raise GroupNotHere(f"no group {name!r} runs here{hint}")

    def change(self, name: str, **fields: Any) -> None:
        """Have a running group go on with other values of these settings."""
        group = self.find(name)
        group.adopt(group.plan.with_settings(fields, group.plan.expiry))
        log.info("group changed", group=name, **fields)

    def pause(self, name: str, *, length_ms: int | None, by: str, reason: str) -> None:
        """Have a running group start nothing, for this long or until `resume`."""
        self.change(name, paused=True)
        self.pauses.begin(self.find(name).plan.own_name, length_ms=length_ms, by=by, reason=reason)

    def resume(self, name: str) -> None:
        self.change(name, paused=False)
        self.pauses.end(self.find(name).plan.own_name)

    def resubscribe(self, group: ConsumerGroup, topic: str, plans: Sequence[GroupPlan]) -> None:
        """Have the group consume this topic as its plan among these says, or leave it."""
        plan = changed(group.plan, plans, topic)
        group.resubscribe(plan)
        self.heartbeats.now()
        log.info("group resubscribed", group=plan.own_name, topics=[each.topic for each in plan.subscriptions])

    def adopt(self, wanted: Sequence[SettingChange], plans: Sequence[GroupPlan]) -> None:
        """Go on with live settings that have changed; `plans` are of all groups, made with them."""
        for change in wanted:
            if change.path == ("app", "budget"):
                self.budget.resize(change.after)
        for plan in plans:
            here = ("consumers", plan.own_name)
            fields = {change.path[2]: change.after for change in wanted if change.path[:2] == here}
            self.dormant.adopt(plan.own_name, fields, plan.expiry)
            if "paused" in fields:
                self.pauses.end(plan.own_name)  # whoever edited the settings has the last word
            for group in self.groups:
                if fields and group.plan.name == plan.name:
                    group.adopt(group.plan.with_settings(fields, plan.expiry))

    # Leaving

    async def leave(self) -> None:
        """Say goodbye for each group, after its queues were given back."""
        await self.cluster.brokers.leave(self.member, [group.plan.name for group in self.groups])

    def forked(self) -> None:
        """In a child process: another member, or none. Whoever comes back from a handler there starts no other."""
        self.joining = Joining(self._settings.app.model_copy(update={"instance": ""}), self._world)
        for group in self.groups:
            group.kind.pool.adopt(group.plan, 0)

    def close(self) -> None:
        """Let other processes have what the groups keep on this machine."""
        self.pauses.close()
        for group in self.groups:
            group.kind.close()

    # What happens meanwhile

    def _heartbeat_accepted(self, address: str) -> None:
        self.accepted.set()
        is_new = address in self._unheard
        self._unheard.pop(address, None)
        for group in self.groups:
            group.joined(address, is_new=is_new)
            if is_new:
                _catch_up(self.cluster, group.retry_topic, self._unheard)

    def connected(self, address: str) -> None:
        """A fresh connection knows nothing of us; members are keyed by connection. A round follows once it does."""
        self._unheard[address] = None
        if self._is_open:  # else a resource that is being opened sends already
            self.heartbeats.now(address)
        for group in self.groups:
            group.kind.pool.connection_made()

    def disconnected(self, address: str) -> None:
        self._unheard.pop(address, None)
        if self._is_open:  # whether anybody is there is asked now, and by one for all
            self.heartbeats.now(address)
        for group in self.groups:
            if group.kind.pool.leases is not None:
                group.kind.pool.leases.connection_lost(address)

    def _routes_changed(self, topic: str) -> None:
        for group in self.groups:
            if topic in group.subscriptions:
                group.members_changed()
            if topic == group.retry_topic:
                _catch_up(self.cluster, group.retry_topic, self._unheard)

    def _budget_changed(self) -> None:
        if self._is_open:
            self.cluster.pause_pulls(paused=not self.budget.has_room)
        if self.budget.has_room:
            for pull in [pull for group in self.groups for pull in group.owned.values()]:
                if pull.flow.held_because == "budget":
                    pull.bell.ring()

    def __repr__(self) -> str:
        return f"<Membership of {len(self.groups)} groups>"


def _catch_up(cluster: Cluster, retry_topic: str, unheard: Container[str]) -> None:
    """A broker makes the retry topic at a group's first heartbeat. Members that read its route at other moments of that
    divide unlike lists: nobody has what is on one broker, and two have what is on another.
    """
    routes = cluster.routes
    there = [routes.find(broker, MASTER) for broker in routes.brokers_of(retry_topic)]
    heard = [each for each in routes.masters() if cluster.pool.is_connected(each) and each not in unheard]
    if there and not set(heard) <= set(there):
        routes.refresh_soon()
