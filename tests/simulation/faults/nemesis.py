"""Nemesis: does a seed's faults to a cluster, one after the other, and then heals everything.

Swarm testing (Groce et al.): a run draws a few kinds of fault, not all at once, so that each gets room. What a kind
does stands in `kinds.py`; here are when, to whom, how often, and the way back.

When it strikes and with what is drawn before it begins, and each strike has a stream of chance of its own, named by its
number. So a strike can be left out while all the others happen at the same times, with what they drew.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from framework.broker.node import Node
from framework.broker.store.topics import PERM_READ_WRITE
from framework.model.reserved import retry_topic
from framework.testing.cluster import BROKER_HOST
from framework.testing.sim.machine import Machine
from framework.testing.sim.streams import Stream
from framework.testing.sim.virtual_loop import NOWHERE
from tests.simulation.administrator import Administrator
from tests.simulation.cluster import Cluster
from tests.simulation.ways import popping

if TYPE_CHECKING:
    from framework.runtime.app import App
    from framework.testing.sim.node import Node as Process
    from tests.simulation.faults.kinds import FaultKind

Struck = tuple[str, str] | tuple[str, str, str] | None
"""Who was struck and how, for the timeline, and which group if only one was; None where there was nobody."""

PAUSE_MIN_S, PAUSE_MAX_S = 0.5, 6.0
AGAIN_S = 1.0
"""How soon a strike that found nobody is tried again, until it is time for the next."""


@dataclass(frozen=True, slots=True)
class Strike:
    """One fault: its number names its stream of chance, and `at` is in seconds from the beginning of the faults."""

    number: int
    at: float
    kind: str


def draw_strikes(chance: Stream, kinds: Sequence[FaultKind], seconds: float) -> tuple[Strike, ...]:
    """When a run of these kinds strikes, and with which: each has its turn before one has a second."""
    names = [kind.name for kind in kinds if kind.strike is not None]
    strikes: list[Strike] = []
    waiting: list[str] = []
    at = chance.between(PAUSE_MIN_S, PAUSE_MAX_S)
    while names and at < seconds:
        waiting = waiting or chance.sample(names, len(names))
        strikes.append(Strike(len(strikes), round(at, 3), waiting.pop()))
        at += chance.between(PAUSE_MIN_S, PAUSE_MAX_S)
    return tuple(strikes)


class Nemesis:
    """One a run. All its chance comes from the stream of faults, and from those of its strikes and kinds."""

    def __init__(self, cluster: Cluster, kinds: Sequence[FaultKind], strikes: Sequence[Strike] | None = None) -> None:
        self.cluster = cluster
        self.loop = cluster.loop
        self.network = cluster.network
        self.chance = cluster.loop.streams.faults
        """What a kind draws from: while it strikes, the strike's own."""
        self.kinds = tuple(kinds)
        self._strikes = strikes
        """Those that are to happen; None where they are drawn."""
        self.struck: Counter[str] = Counter()
        self.administrator = Administrator(cluster)
        self.queues_most = cluster.workload.queues
        """How many queues the topic has ever had: messages may lie in all of them."""
        self._undo: dict[int, Callable[[], object]] = {}
        """What is still to be taken back, by number; taken back by a timer or by healing."""
        self.words: dict[Process, deque[Callable[[App], object]]] = {}
        """What operators have told a process that it has not heard yet, oldest first."""

    def __repr__(self) -> str:
        return f"<Nemesis {', '.join(kind.name for kind in self.kinds) or 'idle'}>"

    @property
    def fired(self) -> Counter[str]:
        """How often each kind has really happened."""
        fired = Counter(self.struck)
        for kind in self.kinds:
            if kind.seen is not None:
                fired[kind.name] = kind.seen(self.cluster)
        return fired

    # -- the fault phase

    async def run(self, seconds: float) -> None:
        """Strike now and then, until so much time has passed."""
        begin, drawn = self.loop.now, self.loop.streams.faults
        strikes = draw_strikes(drawn, self.kinds, seconds) if self._strikes is None else self._strikes
        by_name = {kind.name: kind for kind in self.kinds}
        for kind in self.kinds:
            if kind.prepare is not None:
                self.chance = self._own("weather", kind.name)
                kind.prepare(self)
                self.cluster.recorder.fault(kind.name, "the network", "from now on")
        for number, strike in enumerate(strikes):
            if strike.at < seconds:
                await self.cluster.wait_until(begin + strike.at)
                self.chance = self._own("strike", strike.number)
                until = begin + min((seconds, *(later.at for later in strikes[number + 1 :])))
                while not self.strike(by_name[strike.kind]) and self.loop.now + AGAIN_S < until:
                    await self.cluster.wait_until(self.loop.now + AGAIN_S)
        await self.cluster.wait_until(begin + seconds)

    def _own(self, what: str, which: object) -> Stream:
        return self.loop.streams.named(f"faults/{what}/{which}")

    def strike(self, kind: FaultKind) -> bool:
        """Do it once, if there is anybody to do it to; whether there was."""
        assert kind.strike is not None, f"{kind.name} is weather, it does not strike"
        struck = kind.strike(self)
        if struck is None:
            return False
        self.struck[kind.name] += 1
        self.cluster.recorder.fault(kind.name, *struck)
        return True

    # -- what kinds use

    def steady_app(self) -> Machine | None:
        """One that is alive and not leaving; drawn even where there is none, so that the stream stays in step."""
        draw = self.chance.random()
        steady = [machine for machine in self.cluster.apps if machine.is_steady]
        return steady[int(draw * len(steady))] if steady else None

    @property
    def logical_brokers(self) -> list[Node]:
        """Those of the process that runs; none where it does not."""
        machine = self.cluster.broker
        return machine.broker.nodes if machine.is_alive and machine.broker is not None else []

    @property
    def broker_host(self) -> str:
        return BROKER_HOST

    def revive(self, machine: Machine, after_s: float) -> None:
        """Start a dead application again, unless somebody has."""
        self.cluster.later(after_s, lambda: self._start_app(machine))

    def _start_app(self, machine: Machine) -> None:
        if not machine.is_alive:
            self.cluster.start_app(machine)

    def revive_broker(self, after_s: float) -> None:
        self.loop.create_task(self._revive_broker(after_s), name="revive broker", context=NOWHERE)

    async def _revive_broker(self, after_s: float) -> None:
        await asyncio.sleep(after_s)
        while self.cluster.broker.disk.is_full:  # noqa: ASYNC110  # no broker starts on one
            await asyncio.sleep(0.1)
        if not self.cluster.broker.is_alive:
            await self.cluster.start_broker()

    def send_away(self, machine: Machine, back_after_s: float) -> None:
        """Let it leave in order, and come back."""
        self.cluster.leave(machine)
        self.loop.create_task(self._come_back(machine, back_after_s), name="come back", context=NOWHERE)

    async def _come_back(self, machine: Machine, after_s: float) -> None:
        assert machine.task is not None
        await machine.task
        await asyncio.sleep(after_s)
        self._start_app(machine)

    def for_a_while(self, seconds: float, undo: Callable[[], object]) -> None:
        """Take it back after so long, or when everything is healed."""
        number = self.loop.next_number()
        self._undo[number] = undo
        self.cluster.later(seconds, lambda: self._take_back(number))

    def _take_back(self, number: int) -> None:
        undo = self._undo.pop(number, None)
        if undo is not None:
            undo()

    def in_the_world(self, steps: Callable[[], object], after_s: float) -> None:
        self.cluster.later(after_s, steps)

    def open_for_writing(self) -> None:
        """Brokers and retry topics that were closed take what is sent back again."""
        for node in self.logical_brokers:
            if not node.switches.is_writable:
                node.switches.put("brokerPermission", str(PERM_READ_WRITE))
            for name in self.cluster.history.groups:
                group, topic = node.rules.groups.get(name), node.rules.topics.get(retry_topic(name))
                if group is not None and not group.retry_queues:
                    node.rules.put_group(replace(group, retry_queues=1))
                    self.cluster.recorder.room_again(node.name, name)
                if topic is not None and not topic.is_writable:
                    node.rules.add(replace(topic, perm=PERM_READ_WRITE))

    # -- the way back

    async def heal(self) -> None:
        """Everything works again and everybody is there; from here on progress is demanded."""
        self.cluster.is_healed = True
        for number in list(self._undo):
            self._take_back(number)
        self.network.heal()
        self.cluster.wiretap.stop_stealing()
        if not self.cluster.broker.is_alive:
            await self.cluster.start_broker()
        self._mend_topic()
        self.open_for_writing()
        popping.choose(self.logical_brokers, self.cluster.workload, popping.POP)
        for node in self.logical_brokers:
            node.store.writer.save_tables()  # as an administrator's request would: what was mended is on the disk
        for machine in self.cluster.apps:
            if not machine.is_alive:
                self.cluster.start_app(machine)
        self.cluster.desks.start()
        for machine in self.cluster.machines:  # now that all run: a step that nobody is there to see is time
            machine.skew_ms = 0
            if machine.node is not None:
                machine.node.skew_ms = 0
        self.cluster.recorder.fault("healed", "everybody")

    def _mend_topic(self) -> None:
        """Readable and writable, with every queue that ever was: what is taken back while a broker is down is not."""
        broker = self.cluster.broker.broker
        assert broker is not None, "it was just started"
        for node in broker.nodes:
            topic = node.rules.topics.get(self.cluster.workload.topic)
            if topic is not None:
                most = max(self.queues_most, topic.read_queues)
                node.rules.add(replace(topic, perm=PERM_READ_WRITE, read_queues=most, write_queues=most))
