"""Our producer on two real brokers: which queue a key has, and what becomes of sends while one of them is killed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from itertools import groupby
from random import Random

import pytest

from framework import Producer, SendResult
from framework.reading import Reader, ReaderSettings
from tests.interop.cluster import Cluster, Shape
from tests.interop.java_peer import JavaPeer, Outgoing
from tests.interop.mqadmin import Admin
from tests.interop.processes import Nursery
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.interop, pytest.mark.xdist_group("two_brokers")]

COUNT = 1_000
KEYS = 50


@pytest.fixture(scope="module")
def pair(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster"), nursery, Shape(brokers=2)) as cluster:
        yield cluster


def made(cluster: Cluster, java: JavaPeer, topic: str, **queues: int) -> str:
    """A topic with so many queues on each broker."""
    for broker, count in queues.items():
        address = cluster.addresses.brokers[broker.replace("_", "-")]
        Admin(java, cluster.name_server).run(
            "updateTopic", "-b", address, "-t", topic, "-r", str(count), "-w", str(count)
        )
    return topic


def stored(cluster: Cluster, topic: str) -> list[bytes]:
    """All bodies, queue after queue, each in its order."""
    with Reader(ReaderSettings((cluster.name_server,))) as reader:
        return [
            body or b""
            for queue in sorted(reader.queues(topic))
            if (end := reader.max_offset(queue))
            for columns in reader.read(queue, 0, end)
            for body in columns.bodies
        ]


def test_a_key_has_java_s_queue_also_where_brokers_have_different_numbers_of_them(
    pair: Cluster, java: JavaPeer, numbers: Callable[[], str]
) -> None:
    """Texts of any characters: one beyond the first 65,536 is two of Java's."""
    topic = made(pair, java, f"uneven-{numbers()}", broker_a=3, broker_b=5)
    chance = Random(7)
    letters = [*map(chr, range(0x20, 0x300)), *"消息ещё", "\u2028", *map(chr, range(0x1F600, 0x1F640)), "\U0010ffff"]
    keys = ["polygenelubricants", " ", "0", *("".join(chance.choices(letters, k=6)) for _ in range(100))]
    by_java = java.send(pair.name_server, topic, [Outgoing(body=b"x", keys=key) for key in keys], how="ordered")

    async def send() -> list[SendResult]:
        async with Producer(name_servers=pair.name_server, timeout=PATIENCE_S) as producer:
            return [await producer.send(topic, b"x", order_key=key) for key in keys]

    by_us = asyncio.run(send())

    assert [(each.broker, each.queue) for each in by_java] == [(each.queue.broker, each.queue.number) for each in by_us]
    assert 8 == len({each.queue for each in by_us})


@pytest.mark.parametrize("is_keyed", [False, True])
def test_a_broker_killed_amid_a_thousand_sends_loses_none_and_moves_no_key(
    pair: Cluster, java: JavaPeer, numbers: Callable[[], str], is_keyed: bool
) -> None:
    """Without keys the other broker gets them; keys wait until the killed one is back, and keep their order."""
    topic = made(pair, java, f"killed-{numbers()}", broker_a=4, broker_b=4)

    async def story() -> dict[int, SendResult]:
        results: dict[int, SendResult] = {}
        loop = asyncio.get_running_loop()
        async with Producer(name_servers=pair.name_server, timeout=4 * PATIENCE_S, max_in_flight=100) as producer:

            async def send(number: int) -> None:
                key = f"key-{number % KEYS}" if is_keyed else None
                results[number] = await producer.send(topic, f"{number}", order_key=key)
                if len(results) == COUNT // 4:
                    pair.kill("broker-b")
                    restarts.append(loop.run_in_executor(None, pair.start))

            restarts: list[asyncio.Future[None]] = []
            sends = [loop.create_task(send(number)) for number in range(COUNT)]
            await asyncio.gather(*sends)
            await asyncio.gather(*restarts)
        return results

    results = asyncio.run(story())
    bodies = [int(body) for body in stored(pair, topic)]

    assert set(range(COUNT)) == set(results) == set(bodies)
    if is_keyed:
        for key in range(KEYS):
            # A repeat may follow its message, if the broker was killed behind storing it.
            of_key = [number for number, _ in groupby(body for body in bodies if body % KEYS == key)]
            assert sorted(of_key) == of_key
            assert 1 == len({results[number].queue for number in of_key})
