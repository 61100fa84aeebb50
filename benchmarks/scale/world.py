"""GroupWorld: three brokers and one group of many members on the simulation's cluster, with its counters put in."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.scale.ownership import Ownership
from benchmarks.scale.tap import Tap
from framework import Message, consumer
from framework.broker.node import Node
from framework.broker.settings import BrokerSettings
from framework.broker.store.topics import Topic
from framework.testing.cluster import BROKER_HOST
from framework.testing.sim.machine import Machine
from tests.simulation.cluster import Cluster
from tests.simulation.faults.brokers import without
from tests.simulation.workload import GroupLoad, Workload

TOPIC, GROUP = "orders", "billing"
BROKERS = ("broker-a", "broker-b", "broker-c")
CHANNELS_A_MEMBER = 8
"""At one broker: one for requests, one for pulls, one for routes, and as many of a former life that has just ended."""
STEPS_MAX = 1_000_000_000
LONG_S = 86_400.0


@consumer(topic=TOPIC, group=GROUP)
async def handle(message: Message) -> None:
    """Nothing: no message is sent. What is measured is what members do without any."""


class GroupWorld:
    """As many queues as members, rounded up to a multiple of the brokers."""

    def __init__(self, members: int, seed: int = 1) -> None:
        self.queues_a_broker = -(-members // len(BROKERS))
        self.cluster = Cluster(
            seed,
            apps=members,
            brokers=len(BROKERS),
            policy="fifo",
            workload=Workload(topic=TOPIC, queues=self.queues_a_broker, groups=(GroupLoad(name=GROUP),)),
            consumers=lambda _: [handle],
            broker_settings=BrokerSettings(
                names=BROKERS,
                channels_max=CHANNELS_A_MEMBER * members + 100,
                topic_queues=self.queues_a_broker,
                keeps_locks=False,
            ),
        )
        self.loop = self.cluster.loop
        self.loop.steps_max = STEPS_MAX
        self.tap = Tap(BROKER_HOST)
        self.cluster.network.tap = self.tap
        self.ownership = Ownership(lambda: self.loop.now, [q for name in BROKERS for q in self.queues_of(name)])
        self.cluster.recorder.said = self._said  # type: ignore[method-assign]  # its facts would fill the memory
        self.chance = self.loop.streams.named("scale")
        self.failures: list[str] = []
        """What was logged as an error, and processes that ended by one."""

    def queues_of(self, broker: str) -> list[str]:
        return [f"{TOPIC}@{broker}:{number}" for number in range(self.queues_a_broker)]

    @property
    def steady(self) -> list[Machine]:
        return [machine for machine in self.cluster.apps if machine.is_steady]

    async def start_brokers(self) -> None:
        await self.cluster.start_broker()
        for node in self._nodes:
            node.rules.add(Topic(name=TOPIC, read_queues=self.queues_a_broker, write_queues=self.queues_a_broker))

    @property
    def _nodes(self) -> list[Node]:
        broker = self.cluster.broker.broker
        assert broker is not None, "start_brokers() comes first"
        return broker.nodes

    def start_all(self) -> None:
        for machine in self.cluster.apps:
            self.cluster.start_app(machine)

    async def restart(self, machine: Machine) -> None:
        """As a scheduler does it: SIGTERM, and a new process once the old one has ended."""
        await self.leave(machine)
        self.cluster.start_app(machine)

    async def leave(self, machine: Machine) -> None:
        assert machine.node is not None, f"{machine!r} was never started"
        assert machine.task is not None, f"{machine!r} runs no application"
        self.cluster.leave(machine)
        await machine.task
        self.ownership.ended(machine.node.name)

    def kill(self, machine: Machine) -> None:
        assert machine.node is not None, f"{machine!r} was never started"
        self.cluster.crash(machine)
        self.ownership.ended(machine.node.name)

    def lose_broker(self, name: str) -> Callable[[], None]:
        """Its connections are reset and refused, and the name server leaves it out, as one does by a closed channel.

        What is returned has it back, with its members forgotten.
        """
        broker = self.cluster.broker.broker
        assert broker is not None, "start_brokers() comes first"
        (node,) = (each for each in self._nodes if each.name == name)
        network, port = self.cluster.network, int(node.address.rpartition(":")[2])
        forget = broker.intercept(without(node))
        network.refuse(BROKER_HOST, LONG_S, port)
        network.break_connections(BROKER_HOST, 1.0, port)
        self.ownership.away(self.queues_of(name))

        def come_back() -> None:
            forget()
            network.refuse(BROKER_HOST, 0.0, port)
            self.ownership.away(())

        return come_back

    def _said(self, who: str, event: Mapping[str, Any]) -> None:
        if self.loop.is_over:
            return  # buried loops complain
        self.ownership.said(who, event)
        if event.get("level") in {"error", "critical"}:
            self.failures.append(f"{self.loop.now:.3f} {who}: {dict(event)} {sys.exc_info()[1]!r}")
