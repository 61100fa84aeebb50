"""Reads from a replica of a real broker: where the master says so, and while there is no master."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.interop.application import Application
from tests.interop.cluster import Cluster, Shape
from tests.interop.java_peer import JavaPeer, Outgoing
from tests.interop.mqadmin import Admin
from tests.interop.processes import Nursery
from tests.patience import wait_until

# Two brokers that copy: `make slow PART=replica`.
pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(900)]

COUNT = 3_000
# A master with no memory to spare sends whoever is behind to its replica.
EAGER = {"slaveReadEnable": "true", "accessMessageInMemoryMaxRatio": "0"}


def stored(admin: Admin, topic: str) -> dict[int, tuple[int, int]]:
    """Queue -> the end of its messages, and the group's offset, as the master has them."""
    lines = admin.run("consumerProgress", "-g", f"g-{topic}").splitlines()
    fields = [line.split() for line in lines if line.startswith(f"{topic} ")]
    return {int(line[2]): (int(line[3]), int(line[4])) for line in fields}


def test_what_the_master_sends_to_its_replica_is_read_there_and_offsets_stay_the_masters(
    java: JavaPeer, numbers: Callable[[], str], nursery: Nursery, tmp_path: Path
) -> None:
    """Behind, it reads from the replica; the master dies, and it reads on; the master is back, and has its offsets."""
    (tmp_path / "cluster").mkdir()
    (tmp_path / "member").mkdir()
    cluster = Cluster(tmp_path / "cluster", nursery, Shape(replica=True, settings=EAGER))
    try:
        cluster.start(timeout_s=400)
        admin, topic = Admin(java, cluster.name_server), f"copied-{numbers()}"
        master, replica = (cluster.addresses.brokers[name] for name in ("broker-a", "broker-a-replica"))
        admin.run("updateTopic", "-b", master, "-t", topic, "-r", "2", "-w", "2")
        for queue in range(2):
            bodies = [Outgoing(body=b"%d %d" % (queue, number)) for number in range(COUNT // 2)]
            for start in range(0, len(bodies), 500):
                java.send(cluster.name_server, topic, bodies[start : start + 500], queue=("broker-a", queue))
        # A route names the replica of a topic that it has not heard of yet: it asks its master now and then.
        topics = tmp_path / "cluster" / "store" / "broker-a-replica" / "config" / "topics.json"
        wait_until(lambda: topics.exists() and topic in topics.read_text(), "the replica's topic", 90, pause_s=0.5)
        application = Application(
            nursery,
            tmp_path / "member",
            cluster.name_server,
            topic=topic,
            group=f"g-{topic}",
            pause_s=0.2,
            concurrency=20,
            cache_count=100,
        )
        application.received(200)
        wait_until(lambda: reads_from(application, replica), "reading from the replica")
        wait_until(lambda: any(offset for _, offset in stored(admin, topic).values()), "offsets", pause_s=0.5)

        cluster.kill("broker-a")
        before = len(application.so_far())
        assert before < COUNT - 800, "it dies mid-stream"
        application.received(before + 800, timeout_s=120)  # more than it can have in hand
        cluster.start()
        application.received(COUNT, timeout_s=180)
        wait_until(lambda: len({each.body for each in application.so_far()}) == COUNT, "every message")
        wait_until(
            lambda: all(end == offset == COUNT // 2 for end, offset in stored(admin, topic).values()),
            "the master has every offset",
            pause_s=0.5,
        )
        ended = application.stop()
    finally:
        cluster.stop()
    times = Counter(each.body for each in application.so_far())
    assert 0 == ended.code
    assert {1} == set(times.values()), "one member, which goes on in memory: nothing twice"
    assert COUNT == len(times)


def reads_from(application: Application, address: str) -> bool:
    return any("connected" in line and address in line and "pulls" in line for line in application.said().splitlines())
