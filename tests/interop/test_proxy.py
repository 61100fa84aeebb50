"""Through RocketMQ 5's proxy: its remoting port as the name server, and everything else by it.

What differs is tried, too: `docs/deploy/proxy.md` has a row for each.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from framework import App, Message, Producer, consumer, transaction_check
from framework.errors import Refused
from tests.interop.cluster import Addresses, Cluster, Shape
from tests.interop.command import developers_cluster
from tests.interop.inside import application, owned, running
from tests.interop.java_peer import JavaPeer, Outgoing
from tests.interop.mqadmin import Admin
from tests.interop.processes import Nursery
from tests.patience import until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(420), pytest.mark.xdist_group("proxy")]

QUEUES = 4
ILLEGAL = 13
"""RocketMQ's MESSAGE_ILLEGAL, the proxy's answer to a message of another type than its topic's."""


@dataclass(frozen=True, slots=True)
class Proxied:
    """A cluster that is reached by its proxy alone; topics are made at the brokers, as an operator makes them."""

    name_server: str
    """The proxy's remoting port."""
    admin: Admin
    numbers: Callable[[], str]

    def new_topic(self, kind: str = "NORMAL") -> str:
        topic = f"proxied-{self.numbers()}"
        wish = ["-r", str(QUEUES), "-w", str(QUEUES), "-a", f"+message.type={kind}"]
        self.admin.run("updateTopic", "-c", "DefaultCluster", "-t", topic, *wish)
        return topic


@pytest.fixture(scope="module")
def proxied(
    nursery: Nursery, java: JavaPeer, numbers: Callable[[], str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Proxied]:
    def of(addresses: Addresses) -> Proxied:
        return Proxied(addresses.proxies["remoting"], Admin(java, addresses.name_server), numbers)

    running_one = developers_cluster()
    if running_one is not None and running_one.proxies:
        yield of(running_one)
        return
    cluster = Cluster(tmp_path_factory.mktemp("proxied"), nursery, Shape(proxy=True))
    try:
        cluster.start()
        yield of(cluster.addresses)
    finally:
        cluster.stop()


def test_what_is_sent_and_consumed_and_fails_goes_through_the_proxy(proxied: Proxied, java: JavaPeer) -> None:
    """One message, a batch, one without an answer, one of Java's; one fails once, and one becomes a dead letter."""
    topic = proxied.new_topic()
    group = f"readers-of-{topic}"
    attempts: dict[bytes, int] = {}

    @consumer(topic, group)
    async def read(message: Message) -> None:
        attempts[message.body] = message.attempt
        if message.body == b"dead" or (message.body == b"once" and message.attempt == 1):
            raise ValueError("fails as it was told to")

    async def story() -> App:
        async with Producer(name_servers=proxied.name_server) as producer:
            for body in (b"one", b"once", b"dead"):
                await producer.send(topic, body)
            await producer.send_batch([Message(topic, f"batch-{number}") for number in range(3)])
            await producer.send_one_way(topic, b"one-way")
        await asyncio.to_thread(java.send, proxied.name_server, topic, [Outgoing(body=b"java")])
        app = application(proxied.name_server, read, of_group={"max_retries": 1})
        async with running(app):
            await until(lambda: app.counts.dead_lettered == 1 and attempts.get(b"once") == 2, patience_s=150)
        return app

    app = asyncio.run(story())

    others = {b"one", b"batch-0", b"batch-1", b"batch-2", b"one-way", b"java"}
    assert {**dict.fromkeys(others, 1), b"once": 2, b"dead": 2} == attempts
    assert 7 == app.counts.handled, "all but the dead letter, which is a broker's"
    progress = proxied.admin.run("consumerProgress", "-g", group)
    assert "Diff Total: 0" in progress, "every offset has reached the broker"
    dead = f"%DLQ%{group}"
    assert dead in proxied.admin.run("topicList"), "made by the broker"


def test_members_behind_one_proxy_share_the_queues(proxied: Proxied) -> None:
    """They find each other by the proxy, and a member that leaves gives its queues back."""
    topic = proxied.new_topic()
    group = f"sharers-of-{topic}"

    @consumer(topic, group)
    async def read(message: Message) -> None: ...

    async def story() -> tuple[list[int], list[int]]:
        apps = [application(proxied.name_server, read) for _ in range(2)]
        async with running(apps[0]):
            async with running(apps[1]):
                await until(lambda: [2, 2] == [len(owned(app, group, topic)) for app in apps], patience_s=90)
                shares = [owned(app, group, topic) for app in apps]
            await until(lambda: len(owned(apps[0], group, topic)) == QUEUES, patience_s=90)
        return shares[0], shares[1]

    first, second = asyncio.run(story())

    assert list(range(QUEUES)) == sorted([*first, *second])


def test_an_orderly_group_locks_its_queues_by_the_proxy(proxied: Proxied) -> None:
    topic = proxied.new_topic("FIFO")
    handled: list[bytes] = []

    @consumer(topic, f"orderly-{topic}", orderly=True)
    async def read(message: Message) -> None:
        handled.append(message.body)
        if message.body == b"2" and message.attempt == 1:
            raise ValueError("fails once, and nothing overtakes it")

    async def story() -> None:
        async with Producer(name_servers=proxied.name_server) as producer:
            for number in range(5):
                await producer.send(topic, str(number), order_key="one")
        async with running(application(proxied.name_server, read)):
            await until(lambda: b"4" in handled, patience_s=90)

    asyncio.run(story())

    assert [b"0", b"1", b"2", b"2", b"3", b"4"] == handled


def test_conditions_are_evaluated_behind_the_proxy(proxied: Proxied) -> None:
    """By the broker, from the subscription that comes with each pull."""
    topic = proxied.new_topic()
    handled: list[bytes] = []

    @consumer(topic, f"sql-{topic}", sql="price > 10")
    async def read(message: Message) -> None:
        handled.append(message.body)

    async def story() -> None:
        async with Producer(name_servers=proxied.name_server) as producer:
            for price in (5, 11, 7, 12):
                await producer.send(Message(topic, str(price), properties={"price": str(price)}))
        async with running(application(proxied.name_server, read)):
            await until(lambda: len(handled) >= 2, patience_s=90)

    asyncio.run(story())

    assert [b"11", b"12"] == sorted(handled)


def test_a_delayed_message_goes_to_a_topic_of_that_kind(proxied: Proxied) -> None:
    topic = proxied.new_topic("DELAY")
    handled: list[bytes] = []

    @consumer(topic, f"readers-of-{topic}")
    async def read(message: Message) -> None:
        handled.append(message.body)

    async def story() -> None:
        async with Producer(name_servers=proxied.name_server) as producer:
            await producer.send(topic, b"later", delay="2s")
        async with running(application(proxied.name_server, read)):
            await until(lambda: handled, patience_s=90)

    asyncio.run(story())

    assert [b"later"] == handled


def test_nobody_s_transaction_is_committed_by_the_proxy(proxied: Proxied, java: JavaPeer) -> None:
    """5.5.0's remoting port notes nothing of a half message, so it cannot forward its end. Java's is lost alike."""
    topics = [proxied.new_topic("TRANSACTION") for _ in range(2)]

    @transaction_check(f"desk-of-{topics[0]}")
    async def check(message: Message) -> str:
        return "unknown"

    async def story() -> None:
        async with (
            Producer(name_servers=proxied.name_server, check=check) as producer,
            producer.transaction(Message(topics[0], b"ours")),
        ):
            pass

    asyncio.run(story())
    words: dict[str, Any] = {"names": proxied.name_server, "group": f"desk-of-{topics[1]}", "topic": topics[1]}
    java.call("transact", local="COMMIT", check="UNKNOW", body=base64.b64encode(b"java's").decode(), **words)

    test_a_delayed_message_goes_to_a_topic_of_that_kind(proxied)  # two seconds, in which a commit would be stored
    for topic in topics:
        assert {"0"} == {line.split()[3] for line in _rows(proxied.admin.run("topicStatus", "-t", topic))}


def _rows(printed: str) -> list[str]:
    return [line for line in printed.splitlines() if line.startswith("broker-")]


@pytest.mark.parametrize(
    ("kind", "more"), [("NORMAL", {"order_key": "k"}), ("NORMAL", {"delay": "10s"}), ("FIFO", {})], ids=str
)
def test_a_message_of_another_kind_than_its_topic_is_refused(proxied: Proxied, kind: str, more: dict[str, str]) -> None:
    """Brokers take any; the proxy asks the topic's `message.type`."""
    topic = proxied.new_topic(kind)

    async def story() -> Refused:
        async with Producer(name_servers=proxied.name_server) as producer:
            with pytest.raises(Refused) as refused:
                await producer.send(topic, b"x", **more)  # type: ignore[arg-type]  # options by name
        return refused.value

    assert ILLEGAL == asyncio.run(story()).code


def test_a_topic_is_not_made_by_the_first_message_to_it(proxied: Proxied) -> None:
    async def story() -> Refused:
        async with Producer(name_servers=proxied.name_server) as producer:
            with pytest.raises(Refused) as refused:
                await producer.send(f"nobody-made-{proxied.numbers()}", b"x")
        return refused.value

    assert ILLEGAL == asyncio.run(story()).code
