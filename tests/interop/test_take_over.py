"""Who has an orderly group's queues after a kill, and how soon: what a stock broker lets others do with a lock.

The minutes are `make slow PART=take_over`; Java's client took 56 s.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from framework.client.cluster import Cluster as Client
from framework.client.options import ClusterOptions
from framework.model.queue import MessageQueue
from framework.net.real_world import real_world
from tests.interop.application import Application
from tests.interop.cluster import Addresses, Cluster, Shape
from tests.interop.java_peer import JavaPeer
from tests.interop.mqadmin import Admin
from tests.interop.processes import Nursery
from tests.interop.test_orderly import QUEUES, Stock, by_queue, member, owned, stock
from tests.patience import wait_until

__all__ = ["stock"]  # a fixture
pytestmark = pytest.mark.interop

STOCK_LOCK_S, SHORT_LOCK_S = 60, 30
SLACK_S = 15
"""What the successor asks for each second, and what was left to do."""


def test_a_broker_knows_the_owner_of_a_lock_by_its_client_id_alone(
    cluster: Addresses, new_topic: Callable[..., str]
) -> None:
    """So a successor of the same name has its locks at once, by whatever connection it comes. And whoever says the
    owner's name gives its lock back: a broker that lets everybody do that cannot show that a lock is nobody's.
    """
    topic = new_topic(queues=1)
    queue, group = MessageQueue(topic, "broker-a", 0), f"lockers-of-{topic}"

    async def scenario() -> None:
        clients = [Client(real_world(), ClusterOptions(name_servers=(cluster.name_server,))) for _ in range(3)]
        for client in clients:
            assert [queue] == await client.routes.queues(topic)
        first, successor, other = (client.brokers for client in clients)
        assert {queue} == await first.lock(group, "the owner", [queue])
        assert set() == await other.lock(group, "another", [queue])
        await clients[0].close()
        assert set() == await other.lock(group, "another", [queue]), "the end of a connection is not the lock's"
        assert {queue} == await successor.lock(group, "the owner", [queue])
        await other.unlock(group, "the owner", [queue])
        assert {queue} == await other.lock(group, "another", [queue])
        assert set() == await successor.lock(group, "the owner", [queue])
        for client in clients[1:]:
            await client.close()

    asyncio.run(scenario())


def taken_over(stock: Stock, nursery: Nursery, folder: Path) -> float:
    """How long after the kill of one of two members the other one is at its queues; in order, and without a gap."""
    first = member(nursery, folder / "first", stock, pause_s=0.01)
    second = member(nursery, folder / "second", stock, pause_s=0.01)
    wait_until(lambda: both_have_locks(stock.topic, first, second), "two queues for each")
    stock.send(100)
    first.received(30)
    first.kill()
    killed = time.monotonic()
    gone = by_queue(first.so_far())
    assert gone, "it had queues of its own"
    stock.send(10)  # on a busy machine it may have come to the end of what there was
    wait_until(lambda: any(queue in by_queue(second.so_far()) for queue in gone), "a queue of the dead", 90)
    took_s = time.monotonic() - killed

    def is_all_there() -> bool:
        left = by_queue(second.so_far())
        return all(
            numbers[-1] in left.get(queue, []) + gone.get(queue, []) for queue, numbers in stock.expected.items()
        )

    wait_until(is_all_there, "all queues of the dead", 90, pause_s=0.5)
    second.stop()

    left = by_queue(second.so_far())
    for queue, numbers in stock.expected.items():
        ours, theirs = left.get(queue, []), gone.get(queue, [])
        assert ours == sorted(ours)
        assert theirs == sorted(theirs)
        assert set(numbers) == {*ours, *theirs}, "none lost"
        if theirs and ours:
            assert ours[0] <= theirs[-1] + 1, "repeats at most what was not committed; skips nothing"
    return took_s


def both_have_locks(topic: str, *members: Application) -> bool:
    """Each has said of two queues that they are its own, after whatever went before."""
    return [QUEUES // 2] * len(members) == [owned(topic, each.said()) for each in members]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_killed_member_s_queues_are_taken_over_in_order(stock: Stock, nursery: Nursery, tmp_path: Path) -> None:
    """Nobody unlocks for it: the broker's minute has to pass, and no more."""
    took_s = taken_over(stock, nursery, tmp_path)
    print(f"orderly take-over after SIGKILL, stock broker: {took_s:.1f} s")
    assert took_s <= STOCK_LOCK_S + SLACK_S


@pytest.mark.slow
@pytest.mark.timeout(500)
def test_a_broker_whose_locks_live_for_half_a_minute_gives_them_away_sooner(
    java: JavaPeer, numbers: Callable[[], str], nursery: Nursery, tmp_path: Path
) -> None:
    """An administrator's choice: not below what members trust a lock for."""
    shape = Shape(properties={"rocketmq.broker.rebalance.lockMaxLiveTime": str(SHORT_LOCK_S * 1000)})
    cluster = Cluster(tmp_path / "cluster", nursery, shape)
    try:
        cluster.start()
        topic = f"short-{numbers()}"
        words = ("-c", "DefaultCluster", "-t", topic, "-r", str(QUEUES), "-w", str(QUEUES))
        Admin(java, cluster.name_server).run("updateTopic", *words)
        took_s = taken_over(Stock(java, cluster.name_server, topic), nursery, tmp_path)
    finally:
        cluster.stop()
    print(f"orderly take-over after SIGKILL, locks of {SHORT_LOCK_S} s: {took_s:.1f} s")
    assert took_s <= SHORT_LOCK_S + SLACK_S


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_process_that_is_killed_and_started_again_by_its_name_has_its_locks_at_once(
    stock: Stock, nursery: Nursery, tmp_path: Path
) -> None:
    """With SIGKILL and a new process: what it takes is its start."""

    def start(name: str) -> Application:
        return Application(
            nursery, tmp_path / name, stock.name_server, topic=stock.topic, group=f"keepers-of-{stock.topic}",
            orderly=True, pause_s=0.05, app={"instance": name, "grace": "20s"},  # much is left when it is killed
        )  # fmt: skip

    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    first, second = start("first"), start("second")
    wait_until(lambda: both_have_locks(stock.topic, first, second), "two queues for each")
    stock.send(200)
    first.received(30)
    first.kill()
    killed, before = time.monotonic(), len(first.so_far())
    first = start("first")
    first.received(before + 1)
    took_s = time.monotonic() - killed
    wait_until(lambda: len(by_all(first, second)) == QUEUES * 200, "all messages", pause_s=0.2)
    for each in (first, second):
        each.stop()
    print(f"orderly, killed and started again by its name: at work after {took_s:.1f} s")
    theirs, ours = by_queue(first.so_far()), by_queue(second.so_far())
    assert 2 == len(theirs) == len(ours)
    assert not set(theirs) & set(ours), "no queue has moved"


def by_all(*members: Application) -> set[tuple[int, int]]:
    """Queue and number of everything that was handled."""
    found = [by_queue(each.so_far()) for each in members]
    return {(queue, number) for each in found for queue, numbers in each.items() for number in numbers}
