"""Many groups begin at once: a real broker keeps each of the offsets that it confirms to us."""

from __future__ import annotations

import asyncio

import pytest

from framework.client.cluster import Cluster
from framework.client.options import ClusterOptions
from framework.model.queue import MessageQueue
from framework.net.real_world import real_world
from framework.wire.bodies.heartbeat import ConsumerData, Heartbeat
from tests.interop.places import Place

pytestmark = pytest.mark.interop

GROUPS, QUEUES = 450, 4


def test_offsets_that_many_new_groups_commit_at_once_are_all_kept(place: Place) -> None:
    topic = place.made_topic(queues=QUEUES)
    queues = [MessageQueue(topic, "broker-a", number) for number in range(QUEUES)]
    groups = [f"first-{number}-of-{topic}" for number in range(GROUPS)]

    async def story() -> list[int | None]:
        client = Cluster(real_world(), ClusterOptions(name_servers=(place.name_server,), request_timeout_ms=60_000))
        try:
            await client.routes.refresh(topic)
            beat = Heartbeat(client_id="first@1", consumers=tuple(ConsumerData(group=group) for group in groups))
            await client.brokers.heartbeat(client.routes.address_of("broker-a"), beat)  # which makes the groups
            await asyncio.gather(*(client.brokers.commit(group, queue, 7) for group in groups for queue in queues))
            return [await client.brokers.query_offset(group, queue) for group in groups for queue in queues]
        finally:
            await client.close()

    assert [7] * GROUPS * QUEUES == asyncio.run(story())
