"""Cluster: a broker, applications and a producer on one thread, in virtual time, from one seed. All of it shipped code.

Only the event loop and each process's World are simulated. It owns the machines and their lives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from framework.broker.server import Broker
from framework.broker.settings import BrokerSettings
from framework.client.producer import Producer
from framework.declare import Consumer
from framework.hooks.host import PluginHost
from framework.model.reserved import RETRY_PREFIX, retry_topic
from framework.runtime.app import App
from framework.settings.schema import AppSettings, ClusterSettings
from framework.testing import contents
from framework.testing.errors import Violation
from framework.testing.sim.logs import LINES_MAX, breakdown
from framework.testing.sim.machine import Machine
from framework.testing.sim.network import SimNetwork
from framework.testing.sim.node import Node
from framework.testing.sim.virtual_loop import VirtualLoop
from framework.testing.sim.world import sim_world

BROKER_HOST = "127.0.1.1"
"""A loopback address, so that the broker asks for no credentials, and not the one that means a machine itself."""
BROKER_PORT = 9876
BROKER_SYNC_S = 0.002
"""How long a sync of the broker's disk may take."""


class Cluster:
    """One broker, and as many applications as `add_app` is called; each begins when it is started."""

    def __init__(
        self,
        loop: VirtualLoop,
        *,
        consumers: Sequence[Consumer[..., Any]],
        settings: AppSettings,
        broker_settings: BrokerSettings,
        plugins: PluginHost,
        logical_brokers: int = 1,
    ) -> None:
        self.loop = loop
        self.network = SimNetwork(loop)
        self.broker = Machine("broker", BROKER_HOST)
        self.broker.job_delay_max = BROKER_SYNC_S
        self.apps: list[Machine] = []
        self.producer = Machine("producer", "10.0.0.2")
        self.producing: Producer | None = None
        self.on_app: Callable[[App], object] = _leave_alone
        """Told of each application before it runs."""
        self.on_broker: Callable[[Broker], object] = _leave_alone
        """The same of each broker."""
        self.logs: list[dict[str, Any]] = []
        """What processes logged."""
        self.breakdowns: list[Violation] = []
        """Errors that nobody had foreseen."""
        self._consumers = consumers
        self._settings, self._broker_settings = settings, broker_settings
        self._plugins = plugins
        self._logical_brokers = logical_brokers

    def __repr__(self) -> str:
        alive = [machine.name for machine in self.machines if machine.is_alive]
        return f"<Cluster seed={self.loop.seed} at {self.loop.now:.3f}s: {', '.join(alive)}>"

    @property
    def machines(self) -> list[Machine]:
        return [self.broker, *self.apps, self.producer]

    def add_app(self) -> Machine:
        """One machine more for an application; nothing runs on it yet."""
        number = len(self.apps) + 1
        self.apps.append(Machine(f"app-{number}", f"10.0.0.{10 + number}"))
        return self.apps[-1]

    # -- what applications are

    @property
    def name_servers(self) -> str:
        return f"{BROKER_HOST}:{BROKER_PORT}"

    def configure(self, settings: AppSettings, plugins: PluginHost) -> None:
        """What applications have that start from now on."""
        self._settings, self._plugins = settings, plugins
        vars(self).pop("settings", None)

    @cached_property
    def settings(self) -> AppSettings:
        """What applications run with: what was given, with the way to this cluster."""
        reached = ClusterSettings(name_servers=(self.name_servers,))
        return self._settings.model_copy(update={"cluster": reached})

    def settings_of(self, machine: Machine) -> AppSettings:
        """Those of one machine."""
        return self.settings

    def consumers(self) -> Sequence[Consumer[..., Any]]:
        """What an application that starts now consumes with."""
        return self._consumers

    # -- processes

    async def start_broker(self) -> None:
        """One process with all logical brokers; what its disk has is there again."""
        machine = self.broker
        node = self._begin(machine)
        machine.broker = Broker(
            sim_world(self.network, node, machine.disk),
            host=machine.host,
            port=BROKER_PORT,
            brokers=self._logical_brokers,
            settings=self._broker_settings,
            open_database=lambda: machine.disk.open_database("broker"),
            handlers=self._plugins.broker_handlers,
        )
        self.on_broker(machine.broker)
        machine.task = self.loop.spawn(node, machine.broker.start(), name=f"{node.name} start")
        await machine.task

    def start_app(self, machine: Machine) -> None:
        node = self._begin(machine)
        world = sim_world(self.network, node, machine.disk)
        machine.app = App(self.settings_of(machine), self.consumers(), world=world, plugins=self._plugins)
        self.on_app(machine.app)
        machine.task = self.loop.spawn(node, self._live(machine, node, machine.app), name=f"{node.name} run")

    async def _live(self, machine: Machine, node: Node, app: App) -> None:
        """The process's main function: run, and be gone."""
        try:
            await app.run()
        except Exception as error:  # noqa: BLE001  # border: the process's
            self.failed(machine, node, error)
        else:
            self.left(node)
        self.loop.kill(node, silently=False)
        machine.disk.crash()  # what it had locked is free

    async def start_producer(self) -> None:
        node = self._begin(self.producer)
        self.producing = Producer(
            name_servers=self.name_servers, timeout="5s", world=sim_world(self.network, node, self.producer.disk)
        )
        await self.loop.spawn(node, self.producing.start(), name="producer start")

    def _begin(self, machine: Machine) -> Node:
        node = machine.next_life()
        node.on_log = self.said
        self.lived(node, "started")
        return node

    def crash(self, machine: Machine) -> None:
        """SIGKILL: no step more. The system closes its connections; its disk keeps what was committed."""
        assert machine.node is not None, f"{machine!r} was never started"
        self.loop.kill(machine.node, silently=False)
        machine.disk.crash()
        self.lived(machine.node, "crashed")

    def leave(self, machine: Machine) -> None:
        """SIGTERM: the application drains and ends; see `machine.task`."""
        assert machine.node is not None, f"{machine!r} was never started"
        assert machine.app is not None, f"{machine!r} runs no application"
        machine.is_leaving = True
        self.lived(machine.node, "asked to leave")
        self.loop.spawn(machine.node, machine.app.stop(), name=f"{machine.node.name} stop")

    async def leave_all(self) -> None:
        """End every application in order, one after the other."""
        for machine in self.apps:
            if machine.is_steady and machine.task is not None:
                self.leave(machine)
                await machine.task

    # -- what is told of them

    def lived(self, node: Node, event: str) -> None:
        """A process began, was asked to leave, left in order, or was gone."""

    def left(self, node: Node) -> None:
        """Its main function has come to its end."""
        self.lived(node, "left")

    def failed(self, machine: Machine, node: Node, error: Exception) -> None:
        """Its main function has raised this."""
        self.unexpected(node.name, f"ended by {error!r}")

    def said(self, who: str, event: Mapping[str, Any]) -> None:
        """A process logged a line."""
        if self.loop.is_over:
            return
        fields = dict(event)
        name, level = str(fields.pop("event", "")), str(fields.pop("level", ""))
        if (what := breakdown(name, fields)) is not None:
            self.unexpected(who, what)
        fields.pop("exc_info", None)  # a traceback keeps whole frames alive
        if len(self.logs) < LINES_MAX:
            self.logs.append({"at": self.loop.now, "level": level, "event": name, **fields})

    def unexpected(self, who: str, what: str) -> None:
        """Something broke."""
        if not self.loop.is_over:
            self.breakdowns.append(Violation("nothing unexpected", what, self.loop.now))

    # -- questions

    def is_drained(self) -> bool:
        """Every message of every group is finished and committed, and none waits for its time."""
        return next(self.owed(), None) is None

    def owed(self) -> Iterator[str]:
        """What is not finished and committed yet, a line each."""
        broker = self.broker.broker
        if broker is None or not self.broker.is_alive:
            yield "the broker is away"
            return
        told, shared = dict[str, set[str]](), dict[str, set[str]]()
        for consumer in self.consumers():
            spec = consumer.spec
            (told if spec.broadcasting else shared).setdefault(spec.group, set()).add(spec.topic)

        def readers(topic: str) -> list[str]:
            if topic.startswith(RETRY_PREFIX):
                return [group for group in sorted(shared) if topic == retry_topic(group)]
            return [group for group in sorted(shared) if topic in shared[group]]

        yield from map(str, contents.behind(broker, readers))
        yield from contents.under_way(broker)
        for group, topics in sorted(told.items()):
            yield from contents.unsaved(broker, self.apps, group, topics)


def _leave_alone(_: object) -> None:
    """Nobody wants to be told."""
