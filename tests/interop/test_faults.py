"""Members, brokers and the network fail mid-stream on a real cluster: nothing is lost, and it goes on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.interop.application import Application
from tests.interop.cluster import Addresses, Cluster, Shape
from tests.interop.cut import Address, Wire
from tests.interop.effects import Worker
from tests.interop.java_peer import JavaPeer, Outgoing
from tests.interop.mqadmin import Admin
from tests.interop.processes import Nursery
from tests.patience import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(420), pytest.mark.xdist_group("faults")]

RESUMED_S = 30.0
"""How long after a fault's end messages are handled again, at the latest."""
QUEUES = 8


@pytest.mark.slow
@pytest.mark.parametrize("count", [20_000, 100_000])
def test_one_member_is_killed_and_one_is_stopped_mid_stream(
    count: int, cluster: Addresses, java: JavaPeer, new_topic: Callable[..., str], nursery: Nursery, tmp_path: Path
) -> None:
    """Nothing is lost; of the queues that the stopped member hands over, nothing is done again.

    What moved between the two when the first was killed may come twice: members do not vote, and for a moment two of
    them own one queue.
    """
    topic = new_topic(queues=QUEUES)
    names = ("killed", "stopped", "last")
    workers = [Worker(nursery, tmp_path / name, cluster.name_server, topic, concurrency=8) for name in names]
    killed, stopped, last = workers

    def done() -> int:
        return sum(worker.count for worker in workers)

    for worker in workers:
        wait_until(lambda worker=worker: worker.has_queues, "queues")  # type: ignore[misc]  # mypy knows no default
    java.fill(cluster.name_server, topic, count, batch=25)
    wait_until(lambda: done() >= count // 5, "the first fifth", 120, pause_s=0.02)
    before_kill = {worker: len(worker.application.said()) for worker in (stopped, last)}
    killed.kill()
    left = killed.count
    for worker, length in before_kill.items():
        wait_until(
            lambda worker=worker, length=length: "members=2 owned=4" in worker.application.said()[length:],  # type: ignore[misc]  # as above
            "the two that are left have shared the queues",
        )  # fmt: skip
    wait_until(lambda: done() >= count // 2, "the first half", 240, pause_s=0.02)
    assert 0 < left < count
    taken_before = last.queues()
    stopping_at = time.time()
    ended = stopped.stop()
    mid_stream = done()

    def places() -> set[tuple[int, int]]:
        return {effect.place for worker in workers for effect in worker.effects()}

    wait_until(lambda: done() >= count and len(places()) == count, "every message", 300, pause_s=0.5)
    assert mid_stream < count
    assert 0 < len(taken_before) < QUEUES, "the stopped member had queues to hand over"
    last.stop()
    before = {effect.place for effect in stopped.effects()}
    before |= {effect.place for effect in last.effects() if effect.at < stopping_at}
    repeated = [
        effect
        for effect in last.effects()
        if effect.at >= stopping_at and effect.place in before and effect.place[0] not in taken_before
    ]
    print(f"{count} messages: {done() - count} repeats after SIGKILL, {len(repeated)} after SIGTERM")
    assert (0, 0) == (ended.code, ended.events[-1]["abandoned"])
    assert [] == repeated


def parted(address: str) -> Address:
    host, _, port = address.rpartition(":")
    return host, int(port)


class Frail:
    """A cluster of its own, whose broker is reached through a wire, and a stream of messages in it."""

    def __init__(self, cluster: Cluster, java: JavaPeer, numbers: Callable[[], str]) -> None:
        self.cluster = cluster
        self.admin = Admin(java, cluster.name_server)
        self._java, self._numbers = java, numbers
        known = parted(cluster.addresses.brokers["broker-a"])
        self.wire = Wire(known, ("127.0.0.1", known[1]))

    @property
    def broker(self) -> tuple[str, str]:
        """Its name and its address."""
        return "broker-a", self.cluster.addresses.brokers["broker-a"]

    def topic_name(self) -> str:
        return f"frail-{self._numbers()}"

    def send(self, topic: str, queue: tuple[str, int]) -> None:
        self._java.send(self.cluster.name_server, topic, [Outgoing(body=b"one more")], queue=queue)

    def worker(self, nursery: Nursery, folder: Path, count: int, *, pause_s: float = 0.02) -> Worker:
        """In the middle of so many messages, twenty of which it handles at once."""
        topic = self.topic_name()
        self.admin.run("updateTopic", "-b", self.broker[1], "-t", topic, "-r", "4", "-w", "4")
        self._java.fill(self.cluster.name_server, topic, count, batch=25)
        worker = Worker(nursery, folder, self.cluster.name_server, topic, pause_s=pause_s, concurrency=20)
        wait_until(lambda: worker.count > count // 10, "a part of the messages", 120)
        return worker


@pytest.fixture(scope="module")
def frail(
    nursery: Nursery, java: JavaPeer, numbers: Callable[[], str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Frail]:
    cluster = Cluster(tmp_path_factory.mktemp("frail"), nursery, Shape(settings={"brokerIP1": "127.0.0.2"}))
    try:
        cluster.start()
        frail = Frail(cluster, java, numbers)
        yield frail
        frail.wire.close()
    finally:
        cluster.stop()


def goes_on(worker: Worker, count: int, fault: str) -> None:
    """From now, a fault's end: it resumes within the bound, and then handles everything."""
    ended, before = time.monotonic(), worker.count
    wait_until(lambda: worker.count > before, f"going on after {fault}", RESUMED_S)
    print(f"resumed {time.monotonic() - ended:.1f} s after {fault}")
    wait_until(lambda: worker.count >= count, "the rest", 180, pause_s=0.2)
    wait_until(lambda: len({each.place for each in worker.effects()}) == count, "every message", 120, pause_s=0.5)
    repeats = worker.count - count
    ended_as = worker.stop()
    print(f"{repeats} repeats after {fault}")
    assert 0 == ended_as.code


@pytest.mark.slow
def test_a_killed_broker_that_comes_back_is_consumed_from(frail: Frail, nursery: Nursery, tmp_path: Path) -> None:
    worker = frail.worker(nursery, tmp_path / "worker", 20_000)
    frail.cluster.kill("broker-a")
    time.sleep(5)
    frail.cluster.start()
    assert worker.count < 20_000
    goes_on(worker, 20_000, "the broker's kill -9 and restart")


@pytest.mark.slow
def test_a_name_server_that_comes_back_is_asked_again(frail: Frail, nursery: Nursery, tmp_path: Path) -> None:
    """What is known already needs none, so only what is new shows that it is asked again: a topic that was waited for,
    and queues that a topic has grown by. Routes are asked for each half minute.
    """
    later, (broker, address) = frail.topic_name(), frail.broker
    waiting = Worker(nursery, tmp_path / "waiting", frail.cluster.name_server, later, concurrency=4)
    worker = frail.worker(nursery, tmp_path / "worker", 30_000, pause_s=0.1)
    topic = worker.topic
    frail.cluster.kill("namesrv")
    before = worker.count
    time.sleep(5)
    assert worker.count > before, "what is known already is enough to go on"
    frail.cluster.start()
    assert worker.count < 30_000
    came_back = time.monotonic()
    for name, queues in ((later, 4), (topic, 8)):
        frail.admin.run("updateTopic", "-b", address, "-t", name, "-r", str(queues), "-w", str(queues))
    frail.send(later, (broker, 3))
    frail.send(topic, (broker, 7))
    wait_until(lambda: waiting.count == 1, "the topic that was waited for", RESUMED_S)
    print(f"a new topic consumed {time.monotonic() - came_back:.1f} s after the name server's restart")
    wait_until(lambda: (7, 0) in {each.place for each in worker.effects()}, "the new queue", 2 * RESUMED_S, pause_s=0.5)
    print(f"a new queue consumed {time.monotonic() - came_back:.1f} s after the name server's restart")
    assert 0 == waiting.stop().code
    goes_on(worker, 30_001, "the name server's restart")


@pytest.mark.slow
def test_a_network_that_was_cut_for_a_minute_is_used_again(frail: Frail, nursery: Nursery, tmp_path: Path) -> None:
    """No connection ends: what was sent meanwhile arrives late, if anybody still waits for it."""
    worker = frail.worker(nursery, tmp_path / "worker", 20_000)
    with frail.wire.cut():
        time.sleep(30)
        dry = worker.count
        time.sleep(30)
        assert dry == worker.count < 20_000, "all that was pulled is handled"
    goes_on(worker, 20_000, "60 s of cut network")


@pytest.mark.slow
def test_while_one_broker_is_killed_the_other_one_is_consumed_from_without_a_pause(
    java: JavaPeer, nursery: Nursery, numbers: Callable[[], str], tmp_path: Path
) -> None:
    """Two brokers, one of which is killed and comes back: `make slow PART=one_broker_is_killed`."""
    a, b = "broker-a", "broker-b"
    topic = f"pair-{numbers()}"
    (tmp_path / "cluster").mkdir()
    cluster = Cluster(tmp_path / "cluster", nursery, Shape(brokers=2))

    def send(broker: str, *names: str) -> set[bytes]:
        messages = [Outgoing(body=name.encode()) for name in names]
        java.send(cluster.name_server, topic, messages, queue=(broker, 0))
        return {each.body for each in messages}

    try:
        cluster.start()
        Admin(java, cluster.name_server).run("updateTopic", "-c", "DefaultCluster", "-t", topic, "-r", "2", "-w", "2")
        application = Application(nursery, tmp_path, cluster.name_server, topic=topic, group=f"g-{topic}")

        def is_handled(sent: set[bytes], what: str) -> None:
            wait_until(lambda: sent <= {each.body for each in application.so_far()}, what, RESUMED_S)

        is_handled(send(a, "a") | send(b, "b"), "what both brokers have")
        cluster.kill(b)
        for number in range(20):  # five seconds, at least: each is waited for before the next is sent
            is_handled(send(a, f"meanwhile {number}"), f"message {number} of the broker that is left")
            time.sleep(0.25)
        cluster.start()
        began = time.monotonic()
        is_handled(send(b, "back"), "what is sent to the broker that is back")
        print(f"resumed {time.monotonic() - began:.1f} s after the restart of one of two brokers")
        is_handled(send(a, "still"), "the other one's")
        assert 0 == application.stop().code
    finally:
        cluster.stop()
