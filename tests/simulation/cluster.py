"""Cluster: the one that tests of applications run on, with a workload, and with everything written down that happens.

What goes wrong is `faults/`'s, what is asked of it `workload.py`'s, what must hold `checkers/`'.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

from framework import marks
from framework.broker.settings import BrokerSettings
from framework.broker.store.sent_back import GroupPlace
from framework.declare import Consumer
from framework.errors import ConfigurationError, FrameworkError
from framework.hooks.host import PluginHost
from framework.model.message import Message
from framework.model.queue import MessageQueue
from framework.settings.schema import AppSettings, ClusterSettings
from framework.testing import cluster as plain
from framework.testing.contents import unsaved
from framework.testing.errors import Violation
from framework.testing.sim.disk import SimDisk
from framework.testing.sim.logs import hear_logs
from framework.testing.sim.machine import Machine
from framework.testing.sim.node import Node
from framework.testing.sim.virtual_loop import NOWHERE, Policy, VirtualLoop, run_on
from tests.simulation import broker_view, expectations, ownership
from tests.simulation.checkers.each_queue_has_one_owner import each_queue_has_one_owner
from tests.simulation.checkers.only_who_is_named import only_who_is_named
from tests.simulation.cut_disk import CutDisk
from tests.simulation.facts import Strange
from tests.simulation.handling import handlers
from tests.simulation.history import machine_of, place_of
from tests.simulation.left_out import left_out
from tests.simulation.rare.bends import RunBends, small_broker, small_settings
from tests.simulation.rare.core_marks import core_watched
from tests.simulation.rare.small_limits import small_in_code
from tests.simulation.recorder import Recorder
from tests.simulation.stormy_network import StormyNetwork
from tests.simulation.watching.watch import Watch
from tests.simulation.ways import equipment, popping, tags
from tests.simulation.ways.desks import Desks
from tests.simulation.ways.pop_tap import PopTap
from tests.simulation.wiretap import Wiretap
from tests.simulation.workload import DELAYS_MS, Workload

T = TypeVar("T")
WALL_SKEW_MAX_MS = 50
SEND_AGAIN_S = 0.2
RESTART_S = 2.0
"""How soon a process that refused to start is tried again."""
CONSUMERS = Callable[["Cluster"], Sequence[Consumer[..., Any]]]


class Cluster(plain.Cluster):
    """See the module. `run(scenario)` plays one scenario and ends the world."""

    network: StormyNetwork

    def __init__(
        self,
        seed: int = 0,
        *,
        apps: int = 2,
        brokers: int = 1,
        policy: Policy = "shuffle",
        workload: Workload | None = None,
        consumers: CONSUMERS | None = None,
        settings: AppSettings | None = None,
        broker_settings: BrokerSettings | None = None,
        plugins: PluginHost | None = None,
        mutants: Collection[str] = (),
    ) -> None:
        loop = VirtualLoop(seed, policy=policy)
        self.seed = seed
        self.workload = workload or Workload()
        self.recorder = Recorder(loop)
        self.history = self.recorder.history
        self.is_healed, self.broken = False, set[str]()
        """The fault phase is over: handlers behave from here on; and groups whose handlers fail all."""
        self.broker_names = expectations.broker_names(self.workload, brokers)
        chosen = broker_settings or BrokerSettings(
            names=tuple(self.broker_names),
            delays_ms=DELAYS_MS,
            topic_queues=self.workload.queues,
            keeps_locks=False,  # as RocketMQ's brokers, which forget them: harder on members
        )
        equipped = equipment.plugins(
            self.workload, self.recorder, loop.streams.named, self._disk_of, lambda: self.is_healed
        )
        super().__init__(
            loop,
            consumers=(),
            settings=settings or AppSettings.model_validate({}),
            broker_settings=small_broker(chosen, self.workload),
            # One host for all: the built-in ones keep no state, and loading takes time.
            plugins=plugins or _quiet(lambda: PluginHost(objects=equipped, discover=lambda: ())),
            logical_brokers=brokers,
        )
        self._given_settings = settings
        self._choose_consumers = consumers or self._usual_consumers
        self._mutants = frozenset(mutants)
        self.wiretap = Wiretap(self.recorder.copied)
        self.wiretap.on_published = self.recorder.published
        self.network = StormyNetwork(loop)
        self.network.tap = self.wiretap
        self.on_broker = self.recorder.watch
        self.broker.disk = CutDisk()
        for _ in range(apps):
            self.add_app()
        self.broker.job_delay_max = self.workload.sync_s
        self.desks = Desks(self)
        self.watch = Watch(self)
        self.wiretap.on_commit = self._answered
        self.recorder.on_fall = self.watch.promises.fell
        self.wiretap.on_ask = self.recorder.copy_asked
        self.recorder.name_of = lambda peer: self.network.callers.get(peer, peer)
        self.recorder.holder_of = self.holder_of
        self.recorder.stored_of = self._stored_of
        self.recorder.end_of = self._end_of
        self.recorder.is_half_open = lambda who: self.network.is_half_open(who, plain.BROKER_HOST)
        self.recorder.heard_of = self._heard_of
        self._members: dict[str, str] = {}
        """Client id -> the life of a process that had it."""
        expectations.describe(self.history, self.workload, self._broker_settings, self.broker_names, self.apps)
        if self.workload.is_named:
            self.history.grace_s = self.settings.app.grace / 1000

    @property
    def machines(self) -> list[Machine]:
        return [*super().machines, *self.desks.machines]

    def add_app(self) -> Machine:
        machine = super().add_app()
        machine.disk = CutDisk()
        machine.disk.on_replace = self.recorder.saved
        return machine

    # -- one run

    def run(self, scenario: Callable[[Cluster], Coroutine[Any, Any, T]]) -> T:
        """Play the scenario to its end. What it bends is the whole process's, so one cluster runs at a time."""
        hear_logs()
        if self.history.popping:
            self.wiretap.pops = PopTap(self.recorder, lambda: self.broker.skew_ms)
        bends = RunBends(self.workload, self.loop.streams.named, lambda: self.is_healed, self.recorder.rarely)
        marks.install(self.recorder.reached, bends)
        try:
            with (
                small_in_code(self.workload.small),
                left_out(*self._mutants),
                core_watched(self.recorder.reached),
            ):
                return run_on(self.loop, self._play(scenario))
        finally:
            marks.install()
            for machine in self.machines:
                machine.disk.close()

    async def _play(self, scenario: Callable[[Cluster], Awaitable[T]]) -> T:
        for machine in self.machines:
            machine.skew_ms = int(self.loop.streams.application.between(-WALL_SKEW_MAX_MS, WALL_SKEW_MAX_MS))
        try:
            return await scenario(self)
        finally:
            self._look_back()

    def _look_back(self) -> None:
        """What only the end can tell: what the brokers have, and what nobody expected."""
        facts = self.history.facts
        for at, who, what in self.wiretap.strange:
            facts.append(Strange(at, who, what))
        if self.broker.broker is not None and self.broker.is_alive:
            broker_view.look_back(self.broker.broker, self.history, self.workload.topics, self.broker.skew_ms)
        self.desks.look_back()
        for complaint in self.loop.complaints:
            self.unexpected("the event loop", f"{complaint.get('message')}: {complaint.get('exception')!r}")

    # -- processes

    async def start(self) -> None:
        """The broker first, then every application, then a producer that is ready to send."""
        await self.start_broker()
        for machine in self.apps:
            self.start_app(machine)
        await self.start_producer()
        await self.desks.prepare()
        self.desks.start()

    async def start_broker(self) -> None:
        await super().start_broker()
        assert self.broker.broker is not None, "it was just started"
        self.desks.ready(self.broker.broker)
        popping.prepare(self.broker.broker.nodes, self.workload)
        self.watch.broker_began(self.broker)

    def start_app(self, machine: Machine) -> None:
        super().start_app(machine)
        assert machine.node is not None, "it was just started"
        assert machine.app is not None, "it was just started"
        self._members[machine.app.member] = machine.node.name

    def failed(self, machine: Machine, node: Node, error: Exception) -> None:
        if not isinstance(error, ConfigurationError):
            super().failed(machine, node, error)
        elif any(each is not machine and each.is_alive and each.instance == machine.instance for each in self.apps):
            self.lived(node, f"refused: {error}")
        elif "retryQueueNums" in str(error):  # an administrator's mistake: whoever runs the process tries again
            self.lived(node, f"refused: {error}")
            self.later(RESTART_S, lambda: self._start_again(machine, node))
        else:
            super().failed(machine, node, error)

    def left(self, node: Node) -> None:
        self.watch.left(node)
        super().left(node)

    def _start_again(self, machine: Machine, ended: Node) -> None:
        if machine.node is ended and not machine.is_leaving:
            self.start_app(machine)

    def _begin(self, machine: Machine) -> Node:
        self.network.power_on(machine.host)
        return super()._begin(machine)

    def crash(self, machine: Machine) -> None:
        self.watch.broker_ended(machine)
        super().crash(machine)

    def power_cut(self, machine: Machine) -> None:
        """The machine is gone without a word; its disk keeps what was synced."""
        assert machine.node is not None, f"{machine!r} was never started"
        self.watch.broker_ended(machine)
        self.loop.kill(machine.node, silently=True)
        self.network.power_off(machine.host)
        assert isinstance(machine.disk, CutDisk), f"{machine!r} is none whose power is cut"
        machine.disk.power_cut()
        self.lived(machine.node, "lost power")

    def later(self, seconds: float, act: Callable[[], object]) -> None:
        """Do something in the world itself, whichever process asked for it."""
        self.loop.call_later(seconds, act, context=NOWHERE)

    # -- what is told of them

    def lived(self, node: Node, event: str) -> None:
        self.recorder.life(node.name, event)

    def said(self, who: str, event: Mapping[str, Any]) -> None:
        self.recorder.said(who, event)

    def unexpected(self, who: str, what: str) -> None:
        self.recorder.unexpected(who, what)

    # -- what applications are

    @cached_property
    def settings(self) -> AppSettings:
        """What applications run with, where the workload says it."""
        if self._given_settings is not None:
            return super().settings
        reached = ClusterSettings(name_servers=(self.name_servers,))
        workload = self.workload
        consumers = {
            load.name: expectations.consumer_settings(workload, load, self.broker_names, self.apps)
            for load in workload.groups
        }
        settings = AppSettings.model_validate(
            {"app": {"drain": workload.drain, **workload.app}, "cluster": reached, "consumers": consumers}
        )
        return small_settings(settings, workload)

    def settings_of(self, machine: Machine) -> AppSettings:
        if not self.workload.is_named:
            return self.settings
        named = self.settings.app.model_copy(update={"instance": machine.instance})
        return self.settings.model_copy(update={"app": named})

    def consumers(self) -> Sequence[Consumer[..., Any]]:
        return self._choose_consumers(self)

    def _usual_consumers(self, _: Cluster) -> Sequence[Consumer[..., Any]]:
        return handlers(
            self.workload, self.recorder, self.loop.streams.application, lambda: self.is_healed, self._is_last,
            self.broken.__contains__,
        )  # fmt: skip

    def _is_last(self, message: Message) -> bool:
        """Whether nothing lies behind it in its queue, as far as can be told now."""
        broker = self.broker.broker
        if not self.broker.is_alive or broker is None:
            return True
        return broker_view.end_of(broker, message.queue) <= message.queue_offset + 1

    def holder_of(self, group: str, queue: MessageQueue) -> str:
        """The process that has the queue's lock at its broker; empty for none."""
        broker = self.broker.broker
        if not self.broker.is_alive or broker is None:
            return ""
        now_ms = int(self.loop.now * 1000)
        holders = [node.locks.holder(group, queue, now_ms) for node in broker.nodes if node.name == queue.broker]
        return next((self._members[holder] for holder in holders if holder is not None), "")

    def _heard_of(self, group: str, topic: str) -> frozenset[str]:
        broker = self.broker.broker
        if not self.broker.is_alive or broker is None:
            return frozenset()
        alive = {machine.node.name for machine in self.apps if machine.is_steady and machine.node is not None}
        listed = (node.members.client_ids(group) for node in broker.nodes if topic in node.rules.topics)
        return frozenset(self._members[member] for each in listed for member in each) & alive

    def _disk_of(self, who: str) -> SimDisk:
        return next(machine.disk for machine in self.apps if machine.name == machine_of(who))

    def _end_of(self, queue: str) -> int | None:
        broker = self.broker.broker
        return broker_view.end_of(broker, place_of(queue)) if self.broker.is_alive and broker else None

    def _stored_of(self, group: str, queue: str) -> int | None:
        broker = self.broker.broker
        return broker_view.stored_offset(broker, group, queue) if self.broker.is_alive and broker is not None else None

    def _answered(self, port: int, group: str, topic: str, number: int, offset: int) -> None:
        if self.broker.broker is not None:
            self.watch.promises.answered(self.broker.broker, port, GroupPlace(group, topic, number), offset)

    # -- sending

    async def send(self, count: int, *, topic: str | None = None, period_s: float = 0.0) -> int:
        """Send so many messages, spread over about that long; how many were acknowledged."""
        node = self.producer.node
        assert node is not None, "start() the cluster first"
        topics = self.workload.topics if topic is None else (topic,)
        return await self.loop.spawn(node, self._send_all(topics, count, period_s), name="sending")

    async def _send_all(self, topics: Sequence[str], count: int, period_s: float) -> int:
        chance = self.loop.streams.application
        acknowledged, burst = 0, self.workload.burst
        for number in range(count):
            topic = chance.pick(topics) if len(topics) > 1 else topics[0]
            acknowledged += await self._send_one(topic, number)
            if period_s and (number + 1) % burst == 0:
                await asyncio.sleep(chance.between(0.0, 2 * period_s * burst / count))
        return acknowledged

    async def _send_one(self, topic: str, number: int) -> bool:
        assert self.producing is not None
        try:
            key = number % self.workload.keys if self.workload.keys else number
            marked = tags.marked(self.workload, number)
            result = await self.producing.send(topic, f"message {number}", keys=f"key-{key}", **marked)
        except FrameworkError:
            await asyncio.sleep(SEND_AGAIN_S)
            return False
        self.recorder.sent(result.message_id, result.queue, result.queue_offset)
        return True

    # -- questions

    def owed(self) -> Iterator[str]:
        broker, history = self.broker.broker, self.history
        if broker is None or not self.broker.is_alive:
            yield "the broker is away"
            return
        yield from broker_view.left(broker, history)
        for group in sorted(history.broadcasting):
            yield from unsaved(broker, self.apps, group, history.topics.get(group, {self.workload.topic}))
        yield from self.desks.left()

    async def drain(self, seconds: float) -> None:
        """Demand progress: within so long everything must be drained."""
        until = self.loop.now + seconds
        while not self.is_drained():
            if self.loop.now > until:
                left = "; ".join(self.owed())
                raise Violation("progress", f"not drained {seconds:g}s after healing: {left}", self.loop.now)
            await asyncio.sleep(0.25)
        self.history.is_drained = True
        self.watch.rest()

    async def settle(self, seconds: float) -> None:
        """Let every group come to rest, for so long at most; then note who owns what."""
        until = self.loop.now + seconds
        while True:
            self.history.members, self.history.owners = ownership.picture(self)
            unsettled = [*each_queue_has_one_owner(self.history), *only_who_is_named(self.history)]
            if self.loop.now > until or not unsettled:
                return
            await asyncio.sleep(0.25)

    async def wait_until(self, at: float) -> None:
        """Let the virtual clock reach this second."""
        if at > self.loop.now:
            await asyncio.sleep(at - self.loop.now)

    async def leave_all(self) -> None:
        self.watch.unrest()
        await super().leave_all()


def _quiet(make: Callable[[], T]) -> T:
    """What is made before a run, by no process, logs nothing."""
    hear_logs()
    nobody = Node("nobody", host="", process=0)
    nobody.on_log = lambda who, event: None
    return nobody.context.run(make)
