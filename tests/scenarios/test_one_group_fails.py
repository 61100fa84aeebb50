"""What goes wrong with one group's queues touches no other group, and is over within two seconds of its cause."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from framework.broker.intercept import Interceptor, Lost
from framework.broker.server import Broker
from framework.broker.store.topics import Topic
from framework.declare import Consumer, consumer
from framework.hooks.builtin.allocation.averaging import Averaging
from framework.hooks.host import PluginHost
from framework.hooks.markers import hookimpl
from framework.model.contracts import AllocationStrategy
from framework.model.message import Message
from framework.model.queue import MessageQueue
from framework.settings.schema import AppSettings
from framework.testing.sim.machine import Machine
from framework.wire.codes import RequestCode
from framework.wire.command import RemotingCommand
from tests.simulation.cluster import Cluster
from tests.simulation.facts import Said
from tests.simulation.story import Story, tell
from tests.simulation.workload import Workload

HEALED = "2s"
QUEUES = 6
REQUEST_TIMEOUT = "3s"


class Fragile:
    """Divides as `averaging` does, until it is told to raise."""

    name = "fragile"

    def __init__(self) -> None:
        self.is_broken = False

    def allocate(self, member: str, members: Sequence[str], queues: Sequence[MessageQueue]) -> list[MessageQueue]:
        if self.is_broken:
            raise ZeroDivisionError("no rooms today")
        return Averaging().allocate(member, members, queues)

    @hookimpl
    def register_allocation_strategies(self) -> list[AllocationStrategy]:
        return [self]


class Shop:
    """Two groups, `billing` with trouble and `audit` without, in every application."""

    def __init__(self, *, billing: str = "orders", strategy: str = "averaging") -> None:
        self.fragile = Fragile()
        self.handled: dict[str, list[str]] = {"billing": [], "audit": []}
        self.billing = billing
        settings = AppSettings.model_validate(
            {"consumers": {"billing": {"start": "first", "allocation": strategy}, "audit": {"start": "first"}}}
        )
        plugins = PluginHost(settings.plugins, settings, objects={"fragile": self.fragile}, discover=lambda: ())
        self.cluster = Cluster(
            apps=0, workload=Workload(queues=QUEUES), consumers=self.consumers, settings=settings, plugins=plugins
        )

    async def open(self) -> Broker:
        """A broker with the topic of both groups, and a producer."""
        await self.cluster.start_broker()
        await self.cluster.start_producer()
        broker = self.cluster.broker.broker
        assert broker is not None
        broker.nodes[0].rules.add(Topic(name="orders", read_queues=QUEUES, write_queues=QUEUES))
        return broker

    def consumers(self, _: Cluster) -> list[Consumer[..., Any]]:
        @consumer(topic=self.billing, group="billing")
        async def bill(message: Message) -> None:
            self.handled["billing"].append(message.message_id)

        @consumer(topic="orders", group="audit")
        async def audit(message: Message) -> None:
            self.handled["audit"].append(message.message_id)

        return [bill, audit]

    def shares(self, group: str, topic: str = "orders") -> list[int]:
        """How many queues each living member owns, in the order of the machines."""
        return [len(list(self.owned(machine, group, topic))) for machine in self.cluster.apps if machine.is_alive]

    def owned(self, machine: Machine, group: str, topic: str) -> Iterator[str]:
        assert machine.app is not None
        for each in machine.app.snapshot().groups:
            if each.group == group:
                yield from (queue.queue for queue in each.queues if queue.queue.startswith(f"{topic}@"))

    def complaints(self) -> set[str]:
        return {
            f"{fact.fields['group']}: {fact.fields.get('reason', fact.event)}"
            for fact in self.cluster.history.of(Said)
            if fact.event in {"rebalance failed", "topic not found yet"}
        }


@pytest.mark.parametrize("trouble", ["a strategy that raises", "a member list that does not come"])
def test_the_other_group_is_divided_anew_meanwhile_and_all_is_healed_soon_after(trouble: str) -> None:
    shop = Shop(strategy="fragile")

    async def scenario(story: Story) -> None:
        broker = await shop.open()
        await story.start_apps(2)
        await story.within(HEALED).until(lambda _: [3, 3] == shop.shares("billing") == shop.shares("audit"))
        shop.fragile.is_broken = trouble == "a strategy that raises"
        end = broker.intercept(
            Interceptor(
                code=RequestCode.GET_CONSUMER_LIST_BY_GROUP, lose=Lost.REQUEST, times=None,
                when=lambda request: (
                    request.command.fields["consumerGroup"] == "billing" and not shop.fragile.is_broken
                ),
            )
        )  # fmt: skip
        story.cluster.start_app(story.cluster.add_app())
        await story.within("5s").until(lambda _: shop.shares("audit") == [2, 2, 2])
        sent = await story.send("orders", 60, over="20s")
        await story.sleep("5s")
        assert ([2, 2, 2], sent) == (shop.shares("audit"), len(set(shop.handled["audit"])))
        # Whoever has its queues keeps them, and works on; who is new has none yet.
        assert ([3, 3, 0], sent) == (shop.shares("billing"), len(set(shop.handled["billing"])))
        assert shop.complaints()
        assert all(each.startswith("billing: ") for each in shop.complaints())

        end()
        shop.fragile.is_broken = False
        if trouble != "a strategy that raises":
            await story.sleep(REQUEST_TIMEOUT)  # what was asked before is never answered, and the cause is over then
        await story.within(HEALED).until(lambda _: shop.shares("billing") == [2, 2, 2])
        assert sent == len(shop.handled["billing"]) == len(shop.handled["audit"]), "nothing twice by any of it"

    tell(scenario, shop.cluster)


def test_a_topic_without_a_route_holds_up_nobody_and_is_taken_when_it_is_there() -> None:
    shop = Shop(billing="later")

    async def scenario(story: Story) -> None:
        broker = await shop.open()
        # Nobody makes a topic here that was only asked for.
        broker.intercept(
            Interceptor(
                code=RequestCode.GET_ROUTEINFO_BY_TOPIC,
                times=None,
                answer=RemotingCommand(17, remark="no topic route info"),
                when=lambda request: (
                    request.command.fields["topic"] == "later" and "later" not in broker.nodes[0].rules.topics
                ),
            )
        )  # fmt: skip
        await story.start_apps(2)
        await story.within(HEALED).until(lambda _: shop.shares("audit") == [3, 3])
        assert await story.send("orders", 40, over="4s")
        await story.within("5s").until(lambda _: len(shop.handled["audit"]) == 40)
        assert ([3, 3], [0, 0]) == (shop.shares("audit"), shop.shares("billing", "later"))

        broker.nodes[0].rules.add(Topic(name="later", read_queues=4, write_queues=4))
        await story.within(HEALED).until(lambda _: shop.shares("billing", "later") == [2, 2])
        assert [3, 3] == shop.shares("audit")
        assert {"billing: topic not found yet"} == shop.complaints()

    tell(scenario, shop.cluster)


def test_a_surplus_member_says_so_once_a_change_with_the_numbers() -> None:
    shop = Shop()

    async def scenario(story: Story) -> None:
        await shop.open()
        await story.start_apps(QUEUES + 1)
        await story.sleep("1m")
        said = surplus()
        assert [(QUEUES, QUEUES + 1)] == said, "one member, once"
        (idle,) = [machine for machine in story.cluster.apps if not list(shop.owned(machine, "billing", "orders"))]
        busy = next(machine for machine in story.cluster.apps if machine is not idle)
        await story.leave(busy)
        await story.within(HEALED).until(lambda _: shop.shares("billing") == [1] * QUEUES)
        (late,) = await story.start_apps(1)
        assert late.is_alive
        await story.sleep("1m")
        assert 2 == len(surplus()), "and again when it happens again"

    def surplus() -> list[tuple[object, object]]:
        return [
            (fact.fields["queues"], fact.fields["members"])
            for fact in shop.cluster.history.of(Said)
            if fact.event == "member without queues" and fact.fields["group"] == "billing"
        ]

    tell(scenario, shop.cluster)
