"""What operators do to subscriptions: a group leaves one of its topics while it runs, and comes back to it.

A strike of a fault kind in `kinds.py`; only groups of two topics can be struck, for a group's last topic stays.
"""

from __future__ import annotations

from functools import partial

from framework.runtime.app import App
from framework.testing.sim.machine import Machine
from framework.testing.sim.node import Node
from tests.simulation.faults.nemesis import Nemesis, Struck
from tests.simulation.faults.operators import as_process

EVERYBODY = 0.6
"""How often all members leave the topic; else one does, and brokers hear two different things of the group."""


def unsubscribe(nemesis: Nemesis) -> Struck:
    chance, workload = nemesis.chance, nemesis.cluster.workload
    seconds, is_everybody, one = chance.between(0.5, 12.0), chance.happens(EVERYBODY), nemesis.steady_app()
    groups = [load.name for load in workload.groups if load.reads_second and workload.second_topic]
    if one is None or not groups:
        return None
    group = chance.pick(groups)
    machines = [machine for machine in nemesis.cluster.apps if machine.is_steady] if is_everybody else [one]
    left = [machine for machine in machines if _tell(nemesis, machine, machine.node, group, is_on=False)]
    if not left:
        return None
    for machine in left:
        nemesis.for_a_while(seconds, partial(_tell, nemesis, machine, machine.node, group, is_on=True))
    names = ", ".join(machine.name for machine in left)
    return names, f"{group} leaves {workload.second_topic} for {seconds:.1f}s", group


def _tell(nemesis: Nemesis, machine: Machine, node: Node | None, group: str, *, is_on: bool) -> bool:
    """Have this life of a process leave the topic, or come back to it; whether it can be told."""
    cluster = nemesis.cluster
    topic = cluster.workload.second_topic
    if node is None or (not is_on and not _may_be_told(machine.app, group, topic, is_on=is_on)):
        return False  # to come back it may always be told: one that is held has not left yet

    def told(app: App) -> None:
        if not _may_be_told(app, group, topic, is_on=is_on):
            return  # it was told already, by another strike
        if is_on:
            for consumer in cluster.consumers():
                if (consumer.spec.group, consumer.spec.topic) == (group, topic):
                    app.subscribe(consumer)
        else:
            app.unsubscribe(group, topic)
        cluster.recorder.subscribed(group, topic, is_on=is_on)

    as_process(nemesis, node, machine, told)
    return True


def _may_be_told(app: App | None, group: str, topic: str, *, is_on: bool) -> bool:
    """Whether the group runs there, and does not do already what it is to be told."""
    if app is None or group not in {each.group for each in app.snapshot().groups}:
        return False
    return is_on != any((each.spec.group, each.spec.topic) == (group, topic) for each in app.consumers)
