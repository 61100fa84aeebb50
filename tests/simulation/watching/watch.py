"""Watch: looks at the processes of a cluster while a run goes on, from outside, and writes down what it sees.

What the broker keeps is looked at each second, and after each of its starts. How much each process holds in its tables
is looked at while nothing is owed: everything is handled, and nobody sends. What a process leaves behind is looked at
as it ends. No step of the simulated world is spent on it, so that a run is the same with and without.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from framework.runtime.app import App
from framework.testing.sim.machine import Machine
from framework.testing.sim.node import CURRENT_NODE, Node
from framework.testing.sim.transport import SimTransport
from tests.simulation.facts import Forgotten, Held, LeftBehind
from tests.simulation.watching.leaves import Leaves
from tests.simulation.watching.pictures import pictured
from tests.simulation.watching.promises import Promises
from tests.simulation.watching.sizes import sizes_of

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster

EACH_S = 3
"""How often sizes are counted: it takes some milliseconds a process."""
LOOKS_MAX = 5


class Watch:
    """One a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.promises = Promises()
        self._leaves = Leaves(cluster)
        self._is_at_rest = False
        """Everything is handled, and nobody sends any more."""
        self._looks = 0
        self._seconds = 0
        cluster.loop.on_second = self._second

    def rest(self) -> None:
        """From here on nothing is owed, until `unrest`."""
        self._is_at_rest = True
        self._count()

    def unrest(self) -> None:
        """Members leave, or there is something to do again."""
        if self._is_at_rest:
            self._count()
        self._is_at_rest = False

    def _second(self) -> None:
        cluster, self._seconds = self._cluster, self._seconds + 1
        if cluster.broker.is_alive and cluster.broker.broker is not None:
            self.promises.look(cluster.broker.broker)
        self._leaves.look()
        if self._is_at_rest and self._seconds % EACH_S == 0 and self._looks < LOOKS_MAX:
            self._looks += 1
            self._count()

    # -- sizes

    def _count(self) -> None:
        broker = self._cluster.broker
        for machine in (broker, *self._cluster.apps):
            root = broker.broker if machine is broker else machine.app
            if machine.is_steady and machine.node is not None and root is not None:
                self._note(machine.node, sizes_of(root))
                if machine.app is not None:
                    self._picture(machine.node, machine.app)

    def _note(self, node: Node, sizes: Counter[str]) -> None:
        self._cluster.history.facts.append(Held(self._cluster.loop.now, node.name, sizes))

    def _picture(self, node: Node, app: App) -> None:
        snapshot = app.snapshot()
        for group in snapshot.groups:
            self._cluster.history.facts.append(pictured(self._cluster.loop.now, node.name, group, snapshot.not_ready))

    # -- the broker

    def broker_ended(self, machine: Machine) -> None:
        """Its process is about to be killed."""
        if machine.broker is not None:
            self.promises.ended(machine.broker)

    def broker_began(self, machine: Machine) -> None:
        """It runs again, and nobody has asked it for anything yet."""
        assert machine.broker is not None, "it was just started"
        assert machine.node is not None, "it was just started"
        for what in self.promises.forgotten(machine.broker):
            self._cluster.history.facts.append(Forgotten(self._cluster.loop.now, machine.node.name, what))

    # -- ends

    def left(self, node: Node) -> None:
        """A process has come to the end of its main function: note what still lives in it."""
        found = tuple(self._left(node))
        self._cluster.history.facts.append(LeftBehind(self._cluster.loop.now, node.name, found))

    def _left(self, node: Node) -> Iterator[str]:
        loop = self._cluster.loop
        own = {f"{node.name} run", f"{node.name} stop"}
        for task in loop.all_tasks:
            if not task.done() and task.context.get(CURRENT_NODE) is node and task.get_name() not in own:
                yield f"task {task.get_name()}"
        for step in loop.timers():
            is_its_own = step.context.get(CURRENT_NODE) is node and not isinstance(
                step.owner, asyncio.Task | SimTransport
            )
            if is_its_own:
                yield f"timer {step.name}"
        for endpoint in node.endpoints.values():
            yield f"connection {endpoint!r}"
