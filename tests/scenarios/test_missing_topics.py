"""A topic that is not there, or may not be read: said as it is, with the way out, where it does not mend itself."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Any

import pytest

from framework.broker.node import Node
from framework.broker.store.topics import PERM_READ_WRITE, PERM_WRITE, Topic
from framework.cli.live.figures import figures
from framework.declare import Consumer, consumer
from framework.model.message import Message
from tests.simulation.cluster import Cluster
from tests.simulation.facts import Said
from tests.simulation.story import Story, tell

CREATES_TOPICS = "autoCreateTopicEnable"
NO_TOPIC = "the name server knows no such topic yet"
NOT_READABLE = "the topic may not be read: no broker offers a queue of it to consumers"
NOWHERE = "no name server knows topic later, and brokers make none by themselves (autoCreateTopicEnable=false)"
MAKE_IT = "mqadmin updateTopic -n {} -c {} -t later, or look for a mistake in its name"
OPEN_IT = "mqadmin updateTopicPerm -n NAME_SERVER -c CLUSTER -t later -p 6"


def handlers(*topics: str) -> list[Consumer[..., Any]]:
    def of(topic: str) -> Consumer[..., Any]:
        @consumer(topic=topic, group=f"of-{topic}")
        async def handle(_: Message) -> None:
            await asyncio.sleep(0)

        return handle

    return [of(topic) for topic in topics]


async def opened(story: Story, *, creates: bool) -> Node:
    await story.cluster.start_broker()
    broker = story.cluster.broker.broker
    assert broker is not None
    (node,) = broker.nodes
    node.switches.put(CREATES_TOPICS, str(creates).lower())
    node.rules.add(Topic(name="orders", read_queues=4, write_queues=4))
    return node


def said(story: Story, *events: str) -> list[Said]:
    return [fact for fact in story.history.of(Said) if fact.event in events]


def put(node: Node, perm: int) -> None:
    node.rules.add(Topic(name="later", read_queues=4, write_queues=4, perm=perm))


@pytest.mark.parametrize(
    ("creates", "perm", "reason", "remedy"),
    [
        (False, None, NO_TOPIC, MAKE_IT.format("NAME_SERVER", "CLUSTER")),
        (False, PERM_WRITE, NOT_READABLE, OPEN_IT),
        (True, PERM_WRITE, NOT_READABLE, OPEN_IT),
        (True, None, None, ""),
    ],
    ids=["no broker makes it", "may not be read", "may not be read where brokers make topics", "a send makes it"],
)
def test_one_of_two_topics_is_missing(creates: bool, perm: int | None, reason: str | None, remedy: str) -> None:
    """The other group works, so that the application is ready; nobody would look for the one that waits."""

    async def scenario(story: Story) -> None:
        node = await opened(story, creates=creates)
        if perm is not None:
            put(node, perm)
        (machine,) = await story.start_apps(1)
        await story.sleep("200s")

        assert machine.app is not None
        picture = machine.app.snapshot()
        assert picture.is_ready, picture.not_ready
        lines = said(story, "topic missing")
        first_s = 0 if reason == NOT_READABLE else 60
        expected = [] if reason is None else range(first_s, 200, 60)
        assert len(expected) == len(lines)
        for due_s, line in zip(expected, lines, strict=True):
            assert ("warning", "later", reason, remedy) == (
                line.level, line.fields["topic"], line.fields["reason"], line.fields["remedy"]
            )  # fmt: skip
            assert due_s * 1000 <= int(str(line.fields["since_ms"])) <= due_s * 1000 + 10_000
        missing = {} if reason is None else {"later": f"{reason}; {remedy}"}
        assert missing == {topic: why for group in picture.groups for topic, why in group.missing.items()}
        told = figures([], [{"process": 1, "worker": 0, "snapshot": asdict(picture)}]).troubles
        assert [f"of-later: topic later: {why}" for why in missing.values()] == told

        put(node, PERM_READ_WRITE)
        await story.within("40s").until(lambda _: len(said(story, "topic found")) > 0)
        await story.sleep("70s")
        picture = machine.app.snapshot()
        assert [4, 4] == [
            len([each for each in group.queues if "%RETRY%" not in each.queue]) for group in picture.groups
        ]
        assert (len(lines), {}) == (
            len(said(story, "topic missing")),
            {**picture.groups[0].missing, **picture.groups[1].missing},
        )

    tell(scenario, Cluster(apps=0, consumers=lambda _: handlers("orders", "later")))


def test_the_only_topic_is_missing_and_no_broker_makes_it() -> None:
    """No route names a broker, so that none can be told who we are, and the application stays at its start."""

    async def scenario(story: Story) -> None:
        node = await opened(story, creates=False)
        machine = story.cluster.add_app()
        story.cluster.start_app(machine)
        await story.sleep("130s")

        assert machine.app is not None
        picture = machine.app.snapshot()
        make_it = MAKE_IT.format(story.cluster.name_servers, "DefaultCluster")
        assert ("starting", True) == (
            picture.phase,
            f"no broker has accepted this member's heartbeat yet: {NOWHERE}; {make_it}" in picture.not_ready,
        )
        lines = said(story, "heartbeat not accepted")
        assert [(NOWHERE, make_it)] * 3 == [(each.fields["reason"], each.fields["remedy"]) for each in lines]

        put(node, PERM_READ_WRITE)
        await story.within("10s").until(lambda _: machine.app is not None and machine.app.snapshot().phase == "running")

    tell(scenario, Cluster(apps=0, consumers=lambda _: handlers("later")))
