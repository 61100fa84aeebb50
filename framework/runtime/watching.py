"""Start what watches groups from outside: whether members fit, whether queues get on, whether brokers
keep what fails, what time it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from framework.client.cluster import Cluster
from framework.net.task_tree import TaskTree
from framework.ports import World
from framework.runtime.build.connect import profile_of
from framework.runtime.group.group import ConsumerGroup
from framework.runtime.group.subscribing import redate
from framework.services.census import CensusLoop
from framework.services.clocks import AlignedClock, ClockLoop
from framework.services.room_watch import RoomWatch
from framework.services.standstill import Standstill
from framework.services.supervise import supervise


def start_census(group: ConsumerGroup, member: str, cluster: Cluster, world: World, tree: TaskTree) -> CensusLoop:
    """Ask what this group's other members are."""
    plan = group.plan
    census = CensusLoop(
        plan.name, plan.subscriptions[0].topic, member, lambda: profile_of(group.plan), cluster.inquiries,
        world.clock, members=lambda: group.rebalance.members,
    )  # fmt: skip
    supervise(tree, f"census {plan.name}", census.run, world.chance)
    return census


async def start_clocks(
    clock: AlignedClock, groups: Sequence[ConsumerGroup], cluster: Cluster, world: World, tree: TaskTree
) -> None:
    """Ask brokers for their time, now and then again; what these groups say of themselves is dated by it."""
    clocks = ClockLoop(clock, cluster.inquiries)
    await clocks.ask()
    for group in groups:
        redate(group, clock.now_ms())
    supervise(tree, "clocks", clocks.run, world.chance)


def start_standstill(
    groups: Callable[[], Sequence[ConsumerGroup]], cluster: Cluster, world: World, tree: TaskTree
) -> Standstill:
    """Look whether every queue gets on."""
    still = Standstill(lambda: [(group.plan.own_name, group) for group in groups()], cluster.brokers, world.clock)
    supervise(tree, "standstill", still.run, world.chance)
    return still


async def start_rooms(
    groups: Callable[[], Sequence[ConsumerGroup]], cluster: Cluster, world: World, tree: TaskTree
) -> RoomWatch:
    """Look whether brokers keep what fails. Raises ConfigurationError where one does not."""
    watch = RoomWatch(
        cluster.retry_rooms,
        # A broadcasting group sends nothing back.
        lambda: [(group.plan.name, tuple(group.subscriptions)) for group in groups() if not group.plan.broadcasting],
        world.chance,
    )
    await watch.refuse()
    cluster.routes.on_change(lambda _: watch.soon())
    supervise(tree, "retry queues", watch.run, world.chance)
    return watch
