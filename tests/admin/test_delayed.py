"""Retries that wait at brokers, by each broker's own ladder of delays."""

from __future__ import annotations

from framework import Producer
from framework.admin import delayed
from framework.admin.cluster import Admin
from framework.broker.settings import BrokerSettings
from framework.client.options import ClusterOptions
from framework.model.queue import MessageQueue
from framework.model.reserved import retry_topic
from tests.reading.threads import ThreadBox, thread_box

LADDER_MS = (1_000, 5_000, 1_800_000)


def fail(box: ThreadBox, group: str) -> None:
    """What a failed message leaves: a copy for the group's retry topic, kept for the last level's time."""
    topic = retry_topic(group)

    async def run() -> None:
        async with Producer(name_servers=[box.address]) as producer:
            await producer.send("orders", b"any")  # now it knows where brokers are
            await producer.send(topic, group.encode(), queue=MessageQueue(topic, "broker-a", 0), delay_level=3)

    box.call(run)


def test_a_retry_is_due_when_its_brokers_own_level_is_over() -> None:
    with (
        thread_box(settings=BrokerSettings(delays_ms=LADDER_MS)) as box,
        Admin(ClusterOptions(name_servers=(box.address,))) as admin,
    ):
        for group in ("billing", "other"):
            fail(box, group)
        found = delayed.waiting(admin, "billing")

    assert "" == found.unknown
    assert {"billing": 1, "other": 1} == found.counts
    assert [b"billing"] == [each.message.body for each in found.found]
    assert [LADDER_MS[2]] == [each.due_ms - each.message.stored_ms for each in found.found]
