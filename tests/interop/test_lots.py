"""Lots on a real cluster, whose brokers commit a half message again when they are told so twice, and on the box."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest

from framework import Lots, Message, Producer, transaction_check
from framework.client.dialogue.halves import HalfMessage
from framework.client.dialogue.lot_records import PIECE_BYTES, Piece
from framework.client.dialogue.lot_steps import CommitSome
from framework.model.reserved import GIVEN_UP_TOPIC
from framework.reading import Reader, ReaderSettings
from tests.interop.cluster import Cluster, Shape
from tests.interop.java_peer import JavaPeer
from tests.interop.places import Place
from tests.interop.processes import Nursery
from tests.patience import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]
SOON = {"transactionTimeOut": "1000", "transactionCheckInterval": "2000"}
FORGETFUL = {
    **SOON,
    "transactionOpBatchInterval": "30000",
    "transactionOpMsgMaxSize": "4096",
    # As shipped a broker asks fifteen times, here half a minute: as long as a client may take to say that it is there.
    "transactionCheckMax": "1000",
}
"""What has ended is noted in memory first, as shipped; there it is for three seconds."""


class Died(Exception):
    """The process that settles."""


class Mortal(Lots):
    """It commits some, and dies."""

    async def _taken(self, step: object) -> Any:
        if isinstance(step, CommitSome):
            await super()._taken(CommitSome(step.halves[: len(step.halves) // 2], step.in_order))
            raise Died
        return await super()._taken(step)


class Unsure(Lots):
    """Its first commits take place, and it hears of no other than the first one's."""

    is_told = False

    async def _committed(self, halves: Sequence[HalfMessage], *, in_order: bool) -> list[HalfMessage]:
        left = await super()._committed(halves, in_order=in_order)
        if not self.is_told:
            self.is_told = True
            return [half for half in halves if half is not halves[0]]
        return left


def rows(topic: str, prefix: str, count: int, lot: int) -> list[Message]:
    return [Message(topic, f"{prefix}-{number}", keys=str(lot)) for number in range(count)]


def bodies_of(name_server: str, topic: str) -> Counter[str]:
    with Reader(ReaderSettings((name_server,))) as reader:
        return Counter(
            (body or b"").decode()
            for queue in reader.queues(topic)
            for columns in reader.read(queue, 0, reader.max_offset(queue))
            for body in columns.bodies
        )


def expected(prefix: str, count: int) -> Counter[str]:
    return Counter(f"{prefix}-{number}" for number in range(count))


def test_a_java_consumer_sees_each_message_of_a_lot_once_and_no_dropped_one(place: Place, java: JavaPeer) -> None:
    topic = place.made_topic(queues=3)

    async def story() -> None:
        async with Producer(name_servers=place.name_server, group=f"loader-of-{topic}") as producer:
            options: dict[str, Any] = {"records": f"{topic}-lots"}
            lots = Lots(producer, "nightly", **options)
            await lots.create_records()
            await lots.drop([await lots.prepare(rows(topic, "dropped", 20, 0))])
            await lots._log.write(Piece("lost", 0, Random(1).randbytes(PIECE_BYTES)))  # of a long list
            await lots.settle(0, [await lots.prepare(rows(topic, "whole", 300, 0))])
            await lots.settle(0, [await lots.prepare(rows(topic, "whole", 300, 0))])
            mortal = Mortal(producer, "nightly", **options)
            with pytest.raises(Died):
                await mortal.settle(1, [await mortal.prepare(rows(topic, "half", 60, 1))])
            following = Lots(producer, "nightly", **options)
            await following.settle(1, [await following.prepare(rows(topic, "half", 60, 1))])
            unsure = Unsure(producer, "nightly", **options)
            await unsure.settle(2, [await unsure.prepare(rows(topic, "unsure", 60, 2))])

    asyncio.run(story())
    wanted = expected("whole", 300) + expected("half", 60) + expected("unsure", 60)
    wait_until(lambda: bodies_of(place.name_server, topic).total() >= wanted.total(), "all rows")
    assert wanted == bodies_of(place.name_server, topic)

    member = java.consume(place.name_server, f"readers-of-{topic}", topic)
    seen = Counter[str]()
    while seen.keys() != wanted.keys():
        seen.update(message.body.decode() for message in member.received(1, timeout_s=30))
    member.leave()
    assert wanted == seen


@pytest.mark.long
def test_a_broker_that_forgets_what_it_has_committed_asks_and_nothing_is_doubled(
    nursery: Nursery, tmp_path_factory: pytest.TempPathFactory, numbers: Callable[[], str]
) -> None:
    """A stock broker notes in memory for a while which half messages it has committed. Killed in that time, it
    asks about them again: an answer "commit" would deliver each a second time.
    """
    with Cluster(tmp_path_factory.mktemp("forgetting"), nursery, Shape(settings=FORGETFUL)) as cluster:
        place = Place(cluster.name_server, numbers)
        topic = place.made_topic(queues=2)
        asked: list[tuple[str, str]] = []

        async def story() -> None:
            desks: list[Lots] = []

            @transaction_check(f"loader-of-{topic}")
            async def check(message: Message) -> str:
                said = await desks[0].said_of(int(message.keys[0]))
                asked.append((message.body.decode(), said))
                return said

            async with Producer(name_servers=place.name_server, check=check) as producer:
                lots = Lots(producer, "nightly", records=f"{topic}-lots")
                desks.append(lots)
                await lots.create_records()
                await lots.prepare(rows(topic, "orphan", 5, 0))
                await lots.settle(0, [await lots.prepare(rows(topic, "row", 50, 0))])
                cluster.kill("broker-a")
                await asyncio.to_thread(cluster.start)
                again = {f"row-{number}" for number in range(50)}
                async with asyncio.timeout(300):
                    while not again <= {body for body, _ in asked}:  # noqa: ASYNC110 - what is waited for is plain state
                        await asyncio.sleep(1)
                await lots.settle(1, [await lots.prepare(rows(topic, "next", 10, 1))])

        asyncio.run(story())
        print(f"asked about {len({body for body, _ in asked})} messages again")  # what the kill was for
        assert "commit" not in {said for _, said in asked}
        assert expected("row", 50) + expected("next", 10) == bodies_of(place.name_server, topic)


@pytest.mark.long
def test_what_a_stock_broker_has_given_up_is_settled_once(
    nursery: Nursery, tmp_path_factory: pytest.TempPathFactory, numbers: Callable[[], str]
) -> None:
    """Nobody answered its questions, so it moved the half messages away, and keeps them where they were."""
    settings = {**SOON, "transactionCheckMax": "1"}
    with Cluster(tmp_path_factory.mktemp("giving-up"), nursery, Shape(settings=settings)) as cluster:
        place = Place(cluster.name_server, numbers)
        topic = place.made_topic(queues=2)

        def are_given_up() -> bool:
            return expected("row", 20).keys() <= bodies_of(place.name_server, GIVEN_UP_TOPIC).keys()

        async def story() -> None:
            async with Producer(name_servers=place.name_server, group=f"loader-of-{topic}") as producer:
                lots = Lots(producer, "nightly", records=f"{topic}-lots")
                await lots.create_records()
                prepared = [await lots.prepare(rows(topic, "row", 20, 0))]
                await asyncio.to_thread(wait_until, are_given_up, "half messages that are given up", 120)
                await lots.settle(0, prepared)
                following = Lots(producer, "nightly", records=f"{topic}-lots")
                await following.settle(0, [await following.prepare(rows(topic, "row", 20, 0))])

        asyncio.run(story())
        assert expected("row", 20) == bodies_of(place.name_server, topic)
