"""A group's pool grows from 4 to 20 and shrinks to 2 within a second each way, and no message runs twice or not at all.

In virtual time, where a second is one whatever else the machine does. Threads have no virtual time: they are resized in
`runtime/group/test_changes.py`, and on a real cluster in `interop/test_resizing.py`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from framework.broker.store.topics import Topic
from framework.declare import Consumer, consumer
from framework.model.message import Message
from framework.settings.schema import AppSettings
from tests.simulation.cluster import Cluster
from tests.simulation.story import Story, tell

AT_ONCE = "1s"
HANDLER_S = 0.2
QUEUES = 24
COUNT = 900


class Yard:
    """One group whose handlers each take a while; how many run now, and how often each message ran."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.running = self.most = 0
        self.runs: Counter[str] = Counter()

    async def work(self, *messages: Message) -> None:
        self.runs.update(message.message_id for message in messages)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await asyncio.sleep(HANDLER_S)
        finally:
            self.running -= 1

    def consumers(self, _: Cluster) -> list[Consumer[..., Any]]:
        if self.kind == "batches":

            @consumer(topic="orders", group="billing", batch=4, linger="50ms")
            async def bill_all(messages: list[Message]) -> None:
                await self.work(*messages)

            return [bill_all]

        @consumer(topic="orders", group="billing", orderly=self.kind == "queues in order")
        async def bill(message: Message) -> None:
            await self.work(message)

        return [bill]


@pytest.mark.parametrize("kind", ["messages", "batches", "queues in order"])
def test_four_become_twenty_and_then_two_within_a_second_each(kind: str) -> None:
    yard = Yard(kind)
    settings = AppSettings.model_validate({"consumers": {"billing": {"start": "first", "concurrency": 4}}})
    cluster = Cluster(apps=0, consumers=yard.consumers, settings=settings)

    async def scenario(story: Story) -> None:
        await cluster.start_broker()
        await cluster.start_producer()
        assert cluster.broker.broker is not None
        cluster.broker.broker.nodes[0].rules.add(Topic(name="orders", read_queues=QUEUES, write_queues=QUEUES))
        (machine,) = await story.start_apps(1)
        app = machine.app
        assert app is not None
        sent = await story.send("orders", COUNT)
        await story.within("5s").until(lambda _: yard.running == 4 == yard.most)

        app.resize("billing", 20)
        await story.within(AT_ONCE).until(lambda _: yard.most == 20)

        app.resize("billing", 2)
        await story.within(AT_ONCE).until(lambda _: yard.running <= 2)
        yard.most = 0
        await story.sleep("2s")
        assert 2 == yard.most, "and two it stays"

        app.resize("billing", 20)
        await story.within("2m").until(lambda _: len(yard.runs) == sent == COUNT)
        assert {1} == set(yard.runs.values())

    tell(scenario, cluster)
