"""What lasts: disks that are full for a while, and a member that is cut off until everything is healed."""

from __future__ import annotations

from functools import partial

from framework.testing.sim.machine import Machine
from tests.simulation.facts import Finished, Started
from tests.simulation.faults.nemesis import Nemesis, Struck

UNTIL_HEALED_S = 600.0
AT_WORK_MIN = 2
"""Handlers that run when their process is cut off, so that some of them fail meanwhile."""


def fill_a_disk(nemesis: Nemesis) -> Struck:
    """The box's, or that of an application, which keeps small files. Now and then the box is killed soon after."""
    chance = nemesis.chance
    draw, seconds, is_killed, after_s = chance.random(), chance.between(0.3, 6.0), chance.happens(0.5), chance.random()
    machine = nemesis.cluster.broker if draw < 0.8 else nemesis.steady_app()
    if machine is None or not machine.is_alive or machine.disk.is_full:
        return None
    machine.disk.is_full = True
    nemesis.for_a_while(seconds, partial(_make_room, machine))
    if is_killed and machine is nemesis.cluster.broker:
        nemesis.in_the_world(partial(_kill_broker, nemesis), seconds + 2 * after_s)
    return machine.name, f"its disk is full for {seconds:.1f}s"


def _make_room(machine: Machine) -> None:
    machine.disk.is_full = False


def _kill_broker(nemesis: Nemesis) -> None:
    cluster = nemesis.cluster
    if cluster.broker.is_alive and not cluster.is_healed:
        cluster.crash(cluster.broker)
        nemesis.revive_broker(0.5)


def _at_work(nemesis: Nemesis, machine: Machine) -> int:
    """How many handlers it runs."""
    assert machine.node is not None
    facts, who = nemesis.cluster.history.facts, machine.node.name
    running = {(fact.group, fact.message_id) for fact in facts if type(fact) is Started and fact.who == who}
    return len(
        running - {(fact.group, fact.message_id) for fact in facts if type(fact) is Finished and fact.who == who}
    )


def cut_off_for_long(nemesis: Nemesis) -> Struck:
    """One member that is at work, once a run: what it tries again meanwhile it tries seldom by the end."""
    machine = nemesis.steady_app()
    if machine is None or nemesis.struck["outage"] or _at_work(nemesis, machine) < AT_WORK_MIN:
        return None
    nemesis.network.cut(machine.host, nemesis.broker_host, UNTIL_HEALED_S)
    return machine.name, "cut off until everything is healed"
