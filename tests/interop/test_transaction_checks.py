"""Brokers that ask soon: transactions that are left to checks, given up, and asked about anew."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from framework import Message, Producer, transaction_check
from tests.interop.cluster import Cluster, Shape
from tests.interop.java_peer import JavaPeer
from tests.interop.places import Place
from tests.interop.processes import Nursery
from tests.patience import until

pytestmark = pytest.mark.interop
SOON = {"transactionTimeOut": "1000", "transactionCheckInterval": "2000"}


@pytest.fixture
def asking(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory, numbers: Callable[[], str]) -> Iterator[Place]:
    """A real cluster whose broker asks about a transaction within seconds."""
    with Cluster(tmp_path_factory.mktemp("asking"), nursery, Shape(settings=SOON)) as cluster:
        yield Place(cluster.addresses.name_server, numbers)


def test_a_real_broker_asks_our_check_and_java_s_and_does_what_they_say(asking: Place, java: JavaPeer) -> None:
    topic = asking.new_topic()
    group = f"desk-of-{topic}"
    asked: list[str] = []

    @transaction_check(group)
    async def check(message: Message) -> str:
        asked.append(message.body.decode())
        return "rollback" if b"gone" in message.body else "commit"

    async def story() -> None:
        async with asyncio.timeout(180):
            async with Producer(name_servers=asking.name_server, check=check) as producer:
                for body in ("ours", "ours-gone", "second"):
                    async with producer.transaction(Message(topic, body.encode())) as transaction:
                        transaction.unknown()
                # A group of its own: a stock broker asks again about what has just ended, and obeys the later answer.
                words: dict[str, Any] = {"names": asking.name_server, "group": f"java-{group}", "topic": topic}
                text = base64.b64encode(b"java").decode()
                await asyncio.to_thread(java.call, "transact", body=text, local="UNKNOW", check="COMMIT", **words)
                member = await asyncio.to_thread(java.consume, asking.name_server, f"readers-of-{topic}", topic)
                bodies = set[bytes]()
                while not {b"ours", b"second", b"java"} <= bodies:  # twice each where the broker asked twice
                    bodies |= {message.body for message in await asyncio.to_thread(member.received, 1, timeout_s=5)}
                await asyncio.to_thread(member.leave)

        assert b"ours-gone" not in bodies
        assert {"ours", "ours-gone", "second"} <= set(asked), "by the real broker"

    asyncio.run(story())


def test_a_block_that_outlasts_questions_of_a_real_broker_is_delivered_once(asking: Place, java: JavaPeer) -> None:
    """It stores the half message anew for each question. An end names one of them; the others are asked about."""
    topic = asking.new_topic()
    sold: set[bytes] = set()

    @transaction_check(f"desk-of-{topic}")
    async def check(message: Message) -> str:
        return "commit" if message.body in sold else "rollback"

    async def story() -> None:
        async with asyncio.timeout(180):
            async with Producer(name_servers=asking.name_server, check=check) as producer:
                async with producer.transaction(Message(topic, b"slow")) as transaction:
                    await until(lambda: producer.cluster.checks.answered >= 2)
                    sold.add(b"slow")
                assert "commit" == transaction.state
                answered = producer.cluster.checks.answered
                async with producer.transaction(Message(topic, b"left")) as left:
                    left.unknown()
                await until(lambda: producer.cluster.checks.answered > answered)  # with all that is open
                await producer.send(topic, b"last")

    asyncio.run(story())
    member = java.consume(asking.name_server, f"readers-of-{topic}", topic)
    received = [message.body for message in member.received(2)]
    received += [message.body for message in member.received(1, timeout_s=3)]
    member.leave()

    assert [b"last", b"slow"] == sorted(received)
