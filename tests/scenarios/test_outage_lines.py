"""A broker that is away is named at once and by one line, not by one a queue and second, and summed up afterwards."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from framework.declare import Consumer, consumer
from framework.model.message import Message
from framework.testing.story import Story, tell
from framework.testing.swarm.cluster import Cluster
from framework.testing.swarm.facts import Said
from framework.testing.swarm.workload import GroupLoad, Workload

GROUPS = ("billing", "audit", "inventory")


def handler(group: str, *, orderly: bool) -> Consumer[..., Any]:
    @consumer(topic="orders", group=group, orderly=orderly)
    async def handle(_: Message) -> None:
        await asyncio.sleep(0.01)

    return handle


@pytest.mark.parametrize("orderly", [False, True])
def test_three_groups_and_a_broker_that_is_away_for_a_minute(orderly: bool) -> None:
    async def scenario(story: Story) -> None:
        def lines(since: float, until: float) -> list[Said]:
            said = [fact for fact in story.history.of(Said) if since <= fact.at < until and fact.who.startswith("app")]
            return [fact for fact in said if fact.level != "debug"]

        await story.start_apps(1)
        await story.send("orders", 50)
        await story.sleep("10s")
        began = story.now
        story.cluster.crash(story.cluster.broker)
        await story.sleep("60s")
        ended = story.now
        away = lines(began, ended)
        leases = [line for line in away if line.event == "lease lost"]  # each of these changes what is handled
        assert len(away) - len(leases) <= 4, "the name server is gone as well here"
        assert [line for line in away if line.level == "warning" and line.at < began + 1]
        await story.cluster.start_broker()
        await story.sleep("30s")
        back = lines(ended, story.now)
        (first, *_) = [line for line in back if line.event == "connected"]
        assert first.fields["after_ms"] >= 60_000
        assert first.fields["tries"] > 3
        told = [line for line in back if line.event not in {"lease lost", "queue locked", "queue positioned"}]
        assert len(told) <= 3 * len(GROUPS), [line.event for line in told]

    workload = Workload(queues=8, groups=tuple(GroupLoad(name=name, orderly=orderly) for name in GROUPS))
    consumers = [handler(name, orderly=orderly) for name in GROUPS]
    tell(scenario, Cluster(apps=0, workload=workload, consumers=lambda _: consumers))
