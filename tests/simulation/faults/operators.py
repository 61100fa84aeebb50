"""What operators do while an application runs: they close brokers, pause, resize, edit, and subscribe again.

Each is a strike of a fault kind in `kinds.py`, and is taken back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from framework.broker.intercept import Interceptor
from framework.broker.node import Node as LogicalBroker
from framework.broker.pops import POP, PULL
from framework.broker.request import Request
from framework.broker.store.topics import PERM_READ
from framework.model.reserved import retry_topic
from framework.runtime.app import App
from framework.settings.schema import AppSettings
from framework.testing.sim.machine import Machine
from framework.testing.sim.node import Node
from framework.wire.codes import RequestCode, ResponseCode
from framework.wire.command import RemotingCommand
from tests.simulation.faults.nemesis import Nemesis, Struck
from tests.simulation.ways import popping
from tests.simulation.ways.breaking import BREAKABLE
from tests.simulation.wiretap import NOTHING_KEPT

EDITS = (("cache_count", 2), ("cache_count", 50), ("cache_bytes", 600), ("topic_count", 4), ("topic_bytes", 2_000))
"""Settings that are live, and what no truth counts."""
STOCK = 0.5
"""How often a broker without retry queues is as RocketMQ's, which say yes and keep nothing; the box refuses."""
ONE = 0.5
"""How often only one of several brokers is closed: then there is another road for what failed."""


def close_brokers(nemesis: Nemesis) -> Struck:
    """`brokerPermission=4`: every send-back is refused, and plain sends of what is not in order still pass."""
    seconds, struck = nemesis.chance.between(2.0, 15.0), _brokers(nemesis)
    if not struck:
        return None
    for node in struck:
        node.switches.put("brokerPermission", str(PERM_READ))
    nemesis.for_a_while(seconds, nemesis.open_for_writing)
    return "broker", f"{len(struck)} closed for writing for {seconds:.1f}s"


def close_retry_topics(nemesis: Nemesis) -> Struck:
    """Neither a send-back nor a plain send gets a copy in there."""
    seconds, struck = nemesis.chance.between(2.0, 15.0), _brokers(nemesis)
    if not struck:
        return None
    for node in struck:
        for group in nemesis.cluster.history.groups:
            topic = node.rules.topics.get(retry_topic(group))
            if topic is not None:
                node.rules.add(replace(topic, perm=PERM_READ))
    nemesis.for_a_while(seconds, nemesis.open_for_writing)
    return "broker", f"no retry topic of {len(struck)} may be written to for {seconds:.1f}s"


def take_retry_queues(nemesis: Nemesis) -> Struck:
    """`retryQueueNums=0`: a send-back is refused; a copy that is sent as a message still has a queue to lie in.

    Or, as by stock brokers, it is answered with success and kept by nobody.
    """
    seconds, struck = nemesis.chance.between(2.0, 15.0), _brokers(nemesis)
    is_stock, broker = nemesis.chance.happens(STOCK), nemesis.cluster.broker.broker
    if not struck or broker is None:
        return None
    if is_stock:
        yes = RemotingCommand(ResponseCode.SUCCESS, remark=NOTHING_KEPT)
        code = RequestCode.CONSUMER_SEND_MSG_BACK
        swallow = Interceptor(code=code, answer=yes, times=None, when=partial(_swallowed, nemesis))
        nemesis.for_a_while(seconds, broker.intercept(swallow))
    for node in struck:
        for name in nemesis.cluster.history.groups:
            group = node.rules.groups.get(name)
            if group is not None:
                node.rules.put_group(replace(group, retry_queues=0))
    nemesis.for_a_while(seconds, nemesis.open_for_writing)
    how = ", and it says yes to what is sent back" if is_stock else ""
    return "broker", f"no group of {len(struck)} has retry queues for {seconds:.1f}s{how}"


def _swallowed(nemesis: Nemesis, request: Request) -> bool:
    fields = request.command.fields
    group = request.node.rules.groups.get(fields["group"])
    if group is None or group.retry_queues > 0:
        return False
    nemesis.cluster.recorder.swallowed(fields["group"], fields["originMsgId"])
    return True


def _brokers(nemesis: Nemesis) -> list[LogicalBroker]:
    is_one, draw = nemesis.chance.happens(ONE), nemesis.chance.random()
    nodes = nemesis.logical_brokers
    return [nodes[int(draw * len(nodes))]] if is_one and nodes else nodes


# -- groups


def pause(nemesis: Nemesis) -> Struck:
    seconds = nemesis.chance.between(0.5, 10.0)
    found = _group_of_somebody(nemesis)
    if found is None:
        return None
    machine, node, group = found
    _tell(nemesis, machine, node, group, 0)
    nemesis.for_a_while(seconds, partial(_tell_again, nemesis, machine, node, group))
    return machine.name, f"{group} paused for {seconds:.1f}s", group


def resize(nemesis: Nemesis) -> Struck:
    seconds, size = nemesis.chance.between(0.5, 10.0), nemesis.chance.pick((1, 2, 12))
    found = _group_of_somebody(nemesis)
    if found is None:
        return None
    machine, node, group = found
    _tell(nemesis, machine, node, group, size)
    nemesis.for_a_while(seconds, partial(_tell_again, nemesis, machine, node, group))
    return machine.name, f"{group} runs {size} handlers at once for {seconds:.1f}s", group


def edit_settings(nemesis: Nemesis) -> Struck:
    """A file of settings is changed and read again: how much one group of a process may hold, or all of them."""
    chance, seconds = nemesis.chance, nemesis.chance.between(0.5, 10.0)
    name, value = chance.pick(EDITS)
    found = _group_of_somebody(nemesis)
    if found is None:
        return None
    machine, node, group = found
    load = next(load for load in nemesis.cluster.workload.groups if load.name == group)
    if load.by_hand:  # it may have nothing left with which it could commit
        return None
    usual = getattr(nemesis.cluster.settings.consumers[group], name)
    as_process(nemesis, node, machine, lambda app: app.adopt(_edited(app.settings, group, name, value)))
    nemesis.for_a_while(
        seconds,
        lambda: as_process(nemesis, node, machine, lambda app: app.adopt(_edited(app.settings, group, name, usual))),
    )
    return machine.name, f"{group} has {name} {value} for {seconds:.1f}s", group


def _edited(settings: AppSettings, group: str, name: str, value: int | None) -> AppSettings:
    changed = settings.consumers[group].model_copy(update={name: value})
    return settings.model_copy(update={"consumers": {**settings.consumers, group: changed}})


def deploy_badly(nemesis: Nemesis) -> Struck:
    """All handlers of a group fail for a while, in every process."""
    seconds, broken = nemesis.chance.between(3.0, 20.0), nemesis.cluster.broken
    broken.add(BREAKABLE)
    nemesis.for_a_while(seconds, lambda: broken.discard(BREAKABLE))
    return "everybody", f"all handlers of {BREAKABLE} fail for {seconds:.1f}s", BREAKABLE


def switch_mode(nemesis: Nemesis) -> Struck:
    """`mqadmin setConsumeMode`: a group that goes by its brokers pulls for a while, and then pops again."""
    seconds, workload = nemesis.chance.between(5.0, 25.0), nemesis.cluster.workload
    if not nemesis.logical_brokers:
        return None
    popping.choose(nemesis.logical_brokers, workload, PULL)
    nemesis.for_a_while(seconds, lambda: popping.choose(nemesis.logical_brokers, workload, POP))
    group = next(load.name for load in workload.groups if load.pops == "broker")
    return "broker", f"{group} is to pull for {seconds:.1f}s", group


def subscribe_anew(nemesis: Nemesis) -> Struck:
    """One member hands its topic to a handler anew: it leaves its queues as for another, and takes them again."""
    found = _group_of_somebody(nemesis)
    if found is None:
        return None
    machine, node, group = found

    def subscribed(app: App) -> None:
        for consumer in app.consumers:
            if consumer.spec.group == group:
                app.subscribe(consumer)

    as_process(nemesis, node, machine, subscribed)
    return machine.name, f"{group} subscribes anew", group


def _group_of_somebody(nemesis: Nemesis) -> tuple[Machine, Node, str] | None:
    """One that runs there already."""
    machine, draw = nemesis.steady_app(), nemesis.chance.random()
    if machine is None or machine.app is None or machine.node is None:
        return None
    groups = [each.group for each in machine.app.snapshot().groups]
    return (machine, machine.node, groups[int(draw * len(groups))]) if groups else None


def _tell_again(nemesis: Nemesis, machine: Machine, node: Node, group: str) -> None:
    """What it was started with: whoever was started again meanwhile has it already."""
    load = next(load for load in nemesis.cluster.workload.groups if load.name == group)
    _tell(nemesis, machine, node, group, load.concurrency)


def _tell(nemesis: Nemesis, machine: Machine, node: Node, group: str, size: int) -> None:
    def told(app: App) -> None:
        if size:
            app.resize(group, size)
            app.resume(group)
        else:
            app.pause(group)
        nemesis.cluster.recorder.resized(group, size)

    as_process(nemesis, node, machine, told)


def as_process(nemesis: Nemesis, node: Node, machine: Machine, act: Callable[[App], object]) -> None:
    """In this life of it, as a step of its own.

    Steps overtake each other, and a process that is stopped may be told to pause and to go on before it hears either.
    An operator's second word comes after his first, so each step takes the oldest.
    """
    words = nemesis.words.setdefault(node, deque())
    words.append(act)

    def step() -> None:
        word = words.popleft()
        if machine.node is node and machine.is_steady and machine.app is not None:
            word(machine.app)

    nemesis.loop.call_soon(step, context=node.context)
