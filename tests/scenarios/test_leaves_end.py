"""Every leave and every stop ends in time, whatever else is going on: no room, a handler that hangs, another leave."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from framework import Message, consumer
from framework.core import limits
from framework.core.queue_flow import QueueState
from framework.declare import Consumer
from framework.runtime.group.group import ConsumerGroup
from framework.settings.schema import AppSettings
from framework.testing.sim.machine import Machine
from tests.simulation.cluster import Cluster
from tests.simulation.facts import Said
from tests.simulation.story import Story, tell
from tests.simulation.workload import Workload

SLACK_S = 3.0
"""For what follows the handlers: offsets, locks, the groups' brokers."""
KINDS: dict[str, dict[str, Any]] = {
    "concurrent": {},
    "batches": {"batch": 4},
    "orderly": {"orderly": True},
    "by key": {"orderly": "key"},
}
FOR_EVER_S = 3_600.0


class Handlers:
    """`billing` hangs as long as it is told; `audit` never does."""

    def __init__(self, **options: Any) -> None:
        self.hangs_s = FOR_EVER_S
        self.began = 0
        self._options = options

    async def _handle(self) -> None:
        self.began += 1
        await asyncio.sleep(self.hangs_s)

    def consumers(self, _: Cluster) -> Sequence[Consumer[..., Any]]:
        async def one(_: Message) -> None:
            await self._handle()

        async def many(_: list[Message]) -> None:
            await self._handle()

        async def nothing(_: Message) -> None: ...

        billing = consumer("orders", "billing", **self._options)(many if "batch" in self._options else one)
        return [billing, consumer("orders", "audit")(nothing)]


def cluster_of(handlers: Handlers, drain: str, *, budget: int | None = None, concurrency: int = 2) -> Cluster:
    """`budget` is far below what users may write: a few messages use it up."""
    group = {"start": "first", "concurrency": concurrency, "pull_batch": 4}
    given = {"app": {"drain": drain}, "consumers": {"billing": group, "audit": group}}
    settings = AppSettings.model_validate(given)
    if budget is not None:
        settings = settings.model_copy(update={"app": settings.app.model_copy(update={"budget": budget})})
    return Cluster(apps=0, workload=Workload(queues=4), consumers=handlers.consumers, settings=settings)


def billing_of(machine: Machine) -> ConsumerGroup:
    assert machine.app is not None
    return next(group for group in machine.app._groups if group.plan.name == "billing")


def has_queues(machine: Machine, *, retiring: bool) -> bool:
    """Whether queues of `billing` are its own, or are being left by it."""
    owned = billing_of(machine).owned.values()
    return any((pull.flow.state is QueueState.RETIRING) is retiring for pull in owned)


def is_used_up(machine: Machine) -> bool:
    assert machine.app is not None
    picture = machine.app.snapshot()
    return picture.budget_used >= picture.budget_limit


async def leaves(story: Story, machine: Machine, drain: str | None = None) -> float:
    """How long it takes, from the signal to its end. A Violation where it takes ten minutes."""
    assert machine.app is not None
    assert machine.node is not None
    began = story.now
    machine.is_leaving = True
    story.cluster.loop.spawn(machine.node, machine.app.stop(drain), name=f"{machine.node.name} stop")
    await story.within("10m").until(lambda _: not machine.is_alive)
    return story.now - began


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("budget", [1_000, 4_000])
def test_a_stop_with_the_budget_used_up_takes_no_longer_than_its_drain(kind: str, budget: int) -> None:
    handlers = Handlers(**KINDS[kind])

    async def scenario(story: Story) -> None:
        (app,) = await story.start_apps(1)
        await story.send("orders", 100)
        await story.within("20s").until(lambda _: is_used_up(app) and handlers.began > 0)
        assert 4.9 <= await leaves(story, app) <= 5 + SLACK_S

    tell(scenario, cluster_of(handlers, "5s", budget=budget))


@pytest.mark.parametrize("kind", KINDS)
def test_handlers_that_return_end_a_stop_at_once_though_there_is_no_room(kind: str) -> None:
    handlers = Handlers(**KINDS[kind])
    handlers.hangs_s = 1.0

    async def scenario(story: Story) -> None:
        (app,) = await story.start_apps(1)
        await story.send("orders", 100)
        await story.within("20s").until(lambda _: is_used_up(app) and handlers.began > 0)
        took = await leaves(story, app)
        assert took <= 10.0 + SLACK_S
        began = handlers.began
        await story.sleep("30s")
        assert began == handlers.began

    tell(scenario, cluster_of(handlers, "1m", budget=1_000))


@pytest.mark.parametrize("kind", KINDS)
def test_queues_are_handed_on_within_the_limit_by_who_has_no_room(kind: str) -> None:
    """Its successor begins with them then, and the group that does not hang has gone on all the time."""
    handlers = Handlers(**KINDS[kind])

    async def scenario(story: Story) -> None:
        (former,) = await story.start_apps(1)
        await story.send("orders", 100)
        await story.within("20s").until(lambda _: is_used_up(former) and handlers.began > 0)
        successor = story.cluster.add_app()
        story.restart(successor)
        began = story.now

        def is_shared(_: Story) -> bool:
            return has_queues(successor, retiring=False) and not has_queues(former, retiring=True)

        await story.within("30s").until(lambda _: has_queues(former, retiring=True))
        await story.within("10m").until(is_shared)
        assert story.now - began <= limits.DRAIN_MS / 1000 + limits.LEASE_TRUST_MS / 1000 + 10
        assert former.app is not None
        group = billing_of(former)
        held = sum(pull.flow.window.bytes for each in former.app._groups for pull in each.owned.values())
        assert held == former.app.snapshot().budget_used, "what was left has given its bytes back"
        assert set(group.owned) == set(group.offsets._committable), "and its offset is nobody's here"

    tell(scenario, cluster_of(handlers, "5s", budget=2_000, concurrency=16))  # some hang in each queue


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("drain", ["0s", "1s", "7s"])
def test_a_stop_with_a_short_limit_does_not_wait_for_a_long_leave_that_is_under_way(kind: str, drain: str) -> None:
    """A leave for another member has half a minute; the stop that comes behind it has its own limit, for all queues."""
    handlers = Handlers(**KINDS[kind])

    async def scenario(story: Story) -> None:
        (app,) = await story.start_apps(1)
        await story.send("orders", 100)
        await story.within("20s").until(lambda _: handlers.began > 1)
        story.restart(story.cluster.add_app())
        await story.within("20s").until(lambda _: has_queues(app, retiring=True))
        await story.sleep("2s")
        took, limit_s = await leaves(story, app, drain), float(drain[:-1])
        assert limit_s - 0.2 <= took <= limit_s + SLACK_S

    tell(scenario, cluster_of(handlers, "1m"))


def test_the_limit_of_a_stop_stands_above_the_one_of_the_settings() -> None:
    handlers = Handlers()

    async def scenario(story: Story) -> None:
        (app,) = await story.start_apps(1)
        await story.send("orders", 100)
        await story.within("20s").until(lambda _: handlers.began > 1)
        assert 9.9 <= await leaves(story, app, "10s") <= 10 + SLACK_S
        assert {"app stopped", "queue left busy"} <= {fact.event for fact in story.history.of(Said)}

    tell(scenario, cluster_of(handlers, "1m"))
