"""A broker that is away is named at once and by one line, not by one a queue and second; again each minute, and summed
up afterwards. An application has started when a broker has taken its heartbeat, and says until then what is missing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from framework.broker.intercept import Interceptor
from framework.broker.node import Node
from framework.broker.store.topics import Topic
from framework.declare import Consumer, consumer
from framework.hooks.host import PluginHost
from framework.hooks.markers import hookimpl
from framework.model.message import Message
from framework.testing.sim.machine import Machine
from framework.wire.bodies.route import ClusterInfo
from framework.wire.codes import RequestCode
from framework.wire.command import RemotingCommand
from tests.simulation.cluster import Cluster
from tests.simulation.facts import Said
from tests.simulation.faults.brokers import restart, without
from tests.simulation.story import Story, all_balanced, tell
from tests.simulation.workload import GroupLoad, Workload

GROUPS = {"billing": False, "audit": True, "inventory": False}
"""Each with whether it is orderly."""
QUEUES = 8
Undo = Callable[[], object]


def handler(group: str, *, orderly: bool) -> Consumer[..., Any]:
    @consumer(topic="orders", group=group, orderly=orderly)
    async def handle(_: Message) -> None:
        await asyncio.sleep(0.01)

    return handle


class Hooked:
    """A plugin that is told when the application starts and stops."""

    def __init__(self) -> None:
        self.told: list[str] = []

    @hookimpl
    def app_started(self) -> None:
        self.told.append("started")

    @hookimpl
    def app_stopping(self) -> None:
        self.told.append("stopping")


def three_groups(brokers: int = 1, hooked: Hooked | None = None) -> Cluster:
    workload = Workload(queues=QUEUES, groups=tuple(GroupLoad(name=name, orderly=way) for name, way in GROUPS.items()))
    consumers = [handler(name, orderly=way) for name, way in GROUPS.items()]
    plugins = None if hooked is None else PluginHost(objects={"hooked": hooked}, discover=list)
    return Cluster(apps=0, brokers=brokers, workload=workload, consumers=lambda _: consumers, plugins=plugins)


def lines(story: Story, since: float, *, loud: bool = False) -> list[Said]:
    """What the application has said since then, above debug, or above info."""
    said = [fact for fact in story.history.of(Said) if since <= fact.at and fact.who.startswith("app")]
    return [fact for fact in said if fact.level not in ({"debug", "info"} if loud else {"debug"})]


def events(said: list[Said]) -> list[str]:
    return [fact.event for fact in said]


async def apart(story: Story) -> Node:
    """A name server, and beside it the only broker that has the topic."""
    await story.cluster.start_broker()
    await story.cluster.start_producer()
    broker = story.cluster.broker.broker
    assert broker is not None
    broker.nodes[1].rules.add(Topic(name="orders", read_queues=QUEUES, write_queues=QUEUES))
    return broker.nodes[1]


def is_away_for_minutes(story: Story, began: float) -> None:
    """The cause first, and then nothing but a line a minute, with the cause."""
    first, *later = lines(story, began, loud=True)
    assert "not connected" == first.event
    assert first.at < began + 15
    assert ["heartbeat not accepted"] * 3 == events(later), [(fact.at, fact.event, fact.fields) for fact in later]
    assert [60, 60] == [round(after.at - before.at) for before, after in pairwise(later)]
    assert all("refused" in str(fact.fields["reason"]) for fact in later)
    said = events(lines(story, began))
    assert said.count("disconnected") <= 2, "of its two connections"
    assert {"disconnected", "not connected", "heartbeat not accepted"} == {*said}


def is_back(story: Story, ended: float, least_ms: int) -> None:
    assert [] == lines(story, ended, loud=True)
    first, *_ = [fact for fact in lines(story, ended) if "after_ms" in fact.fields]
    assert "connected" == first.event
    assert first.fields["after_ms"] >= least_ms
    assert first.fields["tries"] > 3


def test_three_groups_and_the_only_broker_that_is_killed_with_its_name_server() -> None:
    async def scenario(story: Story) -> None:
        await story.start_apps(1)
        await story.send("orders", 50)
        await story.sleep("10s")
        began = story.now
        story.cluster.crash(story.cluster.broker)
        await story.sleep("200s")
        is_away_for_minutes(story, began)
        ended = story.now
        await story.cluster.start_broker()
        await story.sleep("40s")
        is_back(story, ended, 200_000)

    tell(scenario, three_groups())


@pytest.mark.parametrize("forgets", [False, True])
def test_three_groups_and_a_broker_that_is_away_while_its_name_server_stays(*, forgets: bool) -> None:
    """A name server forgets a broker that was killed at once, and then knows none of its topics."""

    async def scenario(story: Story) -> None:
        node = await apart(story)
        await story.start_apps(1)
        await story.send("orders", 50)
        await story.sleep("10s")
        began, broker = story.now, story.cluster.broker.broker
        assert broker is not None
        restart(story.nemesis, node, 200.0)
        remembers = broker.intercept(without(node)) if forgets else None
        await story.sleep("199s")
        is_away_for_minutes(story, began)
        if remembers is not None:
            remembers()
        ended = story.now
        await story.sleep("40s")
        is_back(story, ended, 190_000)

    tell(scenario, three_groups(2))


def test_a_broker_that_hangs_is_said_like_one_that_is_gone() -> None:
    async def scenario(story: Story) -> None:
        (machine,) = await story.start_apps(1)
        await story.send("orders", 50)
        await story.sleep("10s")
        began = story.now
        story.cut_off(machine, "200s")
        await story.sleep("199s")
        first, *later = lines(story, began, loud=True)
        assert "not connected" == first.event, [(fact.at, fact.event, fact.fields) for fact in (first, *later)][:9]
        assert {"heartbeat not accepted"} == {*events(later)}, [(fact.at, fact.event, fact.fields) for fact in later][
            :9
        ]
        assert len(later) in {2, 3}

    tell(scenario, three_groups())


# The start


def start_one(story: Story) -> Machine:
    machine = story.cluster.add_app()
    story.cluster.start_app(machine)
    return machine


def refuses_heartbeats(story: Story) -> Undo:
    broker = story.cluster.broker.broker
    assert broker is not None
    no = RemotingCommand(1, remark="check signature failed")
    return broker.intercept(Interceptor(code=RequestCode.HEART_BEAT, answer=no, times=None))


def knows_no_topic(story: Story) -> Undo:
    """As where brokers make none by themselves: there is not even the one that others are made from."""
    broker = story.cluster.broker.broker
    assert broker is not None
    none = RemotingCommand(17, remark="No topic route info")
    return broker.intercept(Interceptor(code=RequestCode.GET_ROUTEINFO_BY_TOPIC, answer=none, times=None))


def knows_no_broker(story: Story) -> Undo:
    broker = story.cluster.broker.broker
    assert broker is not None
    empty = RemotingCommand(0, body=ClusterInfo().encode())
    undo = broker.intercept(Interceptor(code=RequestCode.GET_BROKER_CLUSTER_INFO, answer=empty, times=None))
    undoing = [knows_no_topic(story), undo]
    return lambda: [undo() for undo in undoing]


def refuses_all(story: Story) -> Undo:
    broker = story.cluster.broker.broker
    assert broker is not None
    no = RemotingCommand(16, remark="User:me is not found")
    codes = (RequestCode.GET_ROUTEINFO_BY_TOPIC, RequestCode.HEART_BEAT)
    undoing = [broker.intercept(Interceptor(code=code, answer=no, times=None)) for code in codes]
    return lambda: [undo() for undo in undoing]


def is_down(story: Story) -> Undo:
    broker = story.cluster.broker.broker
    assert broker is not None
    restart(story.nemesis, broker.nodes[1], 150.0)
    return lambda: None


# What a start may lack, what is said of it first, with which cause, and how soon it goes on when that is over.
CAUSES: dict[str, tuple[Callable[[Story], Undo], str, str, str]] = {
    "down": (is_down, "not connected", "refused", "13s"),
    "refuses heartbeats": (
        refuses_heartbeats,
        "heartbeat failed",
        "signature failed; check cluster.credentials",
        "32s",
    ),
    "knows no broker": (
        knows_no_broker,
        "heartbeat not accepted",
        "no name server names a broker of topic orders yet",
        "4s",
    ),
    "knows no topic": (
        knows_no_topic,
        "heartbeat not accepted",
        "no name server knows topic orders, and brokers make none by themselves (autoCreateTopicEnable=false)",
        "4s",
    ),
    "refuses all": (refuses_all, "route not refreshed", "User:me is not found; check cluster.credentials", "4s"),
}


@pytest.mark.parametrize("cause", CAUSES)
def test_an_application_has_started_once_a_broker_has_taken_its_heartbeat(cause: str) -> None:
    """Until then one line at first and one a minute, with the cause, however many groups there are."""
    begin, event, reason, soon = CAUSES[cause]
    hooked = Hooked()

    async def scenario(story: Story) -> None:
        await apart(story)
        undo, began = begin(story), story.now
        machine = start_one(story)
        await story.sleep("149s")
        assert machine.app is not None
        picture = machine.app.snapshot()
        assert any(reason in each for each in picture.not_ready), picture.not_ready
        assert ("starting", False, []) == (picture.phase, picture.is_ready, hooked.told)
        first, *later = lines(story, began, loud=True)
        assert (event, True) == (first.event, first.at < began + 5), [
            (each.event, each.fields) for each in (first, *later)
        ]
        assert ["heartbeat not accepted"] * 2 == events(later), [(each.event, each.fields) for each in later]
        for each in (first, *later):
            assert reason in str(each.fields["reason"])
        said = {*events(lines(story, began))}
        assert not said & {"app started", "topic not found yet", "rebalance failed", "lease lost", "queue not locked"}
        if cause.startswith("refuses"):
            assert ("connected" in said) == (cause == "refuses heartbeats"), "the name server has answered there"

        undo()
        ended = story.now
        await story.within(soon).until(all_balanced)
        await story.sleep("3s")
        later = lines(story, ended)
        assert "app started" in events(later)
        assert [] == [fact.event for fact in later if fact.level == "warning"]
        first_of = {
            name: next(fact.at for fact in later if fact.event == name) for name in ("app started", "queue locked")
        }
        assert first_of["app started"] <= first_of["queue locked"]
        await story.leave(machine)
        assert ["started", "stopping"] == hooked.told

    tell(scenario, three_groups(2, hooked))


def test_one_broker_of_two_is_enough_to_start_and_the_other_one_is_said() -> None:
    async def scenario(story: Story) -> None:
        await story.cluster.start_broker()
        await story.cluster.start_producer()
        broker = story.cluster.broker.broker
        assert broker is not None
        for node in broker.nodes:
            node.rules.add(Topic(name="orders", read_queues=QUEUES, write_queues=QUEUES))
        restart(story.nemesis, broker.nodes[1], 150.0)
        began = story.now
        machine = start_one(story)
        await story.sleep("149s")
        assert machine.app is not None
        assert "running" == machine.app.snapshot().phase
        said = lines(story, began, loud=True)
        assert "not connected" == said[0].event
        assert ["heartbeat not accepted"] * 2 == [fact.event for fact in said[1:]], events(said)
        assert {(broker.nodes[1].address,)} == {tuple(fact.fields["brokers"]) for fact in said[1:]}

    tell(scenario, three_groups(2))


def test_a_topic_that_may_not_be_read_keeps_no_other_group_from_starting() -> None:
    @consumer(topic="closed", group="billing")
    async def bill(_: Message) -> None: ...

    async def scenario(story: Story) -> None:
        await apart(story)
        broker = story.cluster.broker.broker
        assert broker is not None
        no = RemotingCommand(16, remark="User:me has no permission on Topic:closed")
        broker.intercept(
            Interceptor(
                code=RequestCode.GET_ROUTEINFO_BY_TOPIC, answer=no, times=None,
                when=lambda request: request.command.fields["topic"] == "closed",
            )
        )  # fmt: skip
        machine = start_one(story)
        await story.sleep("10s")
        assert QUEUES == len(story.queues_of(machine, "orders"))

    consumers = [bill, handler("audit", orderly=False)]
    tell(scenario, Cluster(apps=0, brokers=2, workload=Workload(queues=QUEUES), consumers=lambda _: consumers))


def test_a_stop_does_not_wait_for_a_broker_and_starts_nothing() -> None:
    hooked = Hooked()

    async def scenario(story: Story) -> None:
        await apart(story)
        is_down(story)
        began = story.now
        machine = start_one(story)
        await story.sleep("30s")
        asked = story.now
        await story.leave(machine)
        assert story.now < asked + 1
        said = events(lines(story, began))
        assert {"app stopping", "app stopped"} < {*said}
        assert "app started" not in said
        assert [] == hooked.told

    tell(scenario, three_groups(2, hooked))
