"""What a real cluster does with a group whose members are not of one kind, as docs/migrate/java.md says.

No broker refuses such a member. Each is one that queues are given to, so what it does with its share is what the group
does with it. `test_retry.py` has what becomes of copies that are sent beside an orderly member.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, MutableMapping
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from framework import App, Message, Producer, consumer
from framework.core.consistency import OTHER_MODEL, OTHER_ORDER, OTHER_TOPICS
from framework.model.queue import MessageQueue
from framework.services import consistency
from tests.interop.cluster import Addresses
from tests.interop.inside import application, owned, running
from tests.interop.mqadmin import Admin
from tests.interop.test_consuming import lag
from tests.patience import until

pytestmark = pytest.mark.interop

QUEUES = 4
COUNT = 6
"""Messages of each queue."""


Lines = list[MutableMapping[str, Any]]


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[Lines]:
    """What is logged. Members are looked at soon after they have come."""
    for name in ("LOOK_SECONDS", "SETTLED_SECONDS", "ALONE_SECONDS", "AGAIN_SECONDS"):
        monkeypatch.setattr(consistency, name, 0.5)
    with capture_logs() as lines:
        yield lines


class Member:
    """One application of the group, and which messages it was given: (queue, body)."""

    def __init__(self, cluster: Addresses, topic: str, group: str, settings: Any = None, **how: Any) -> None:
        self.given: Counter[tuple[int, bytes]] = Counter()
        self.running: Counter[int] = Counter()
        self.most: Counter[int] = Counter()
        """Of each queue, how many handlers ran at once."""

        @consumer(topic, group, **how)
        async def note(message: Message) -> None:
            queue = message.queue.number
            self.given[queue, message.body] += 1
            self.running[queue] += 1
            self.most[queue] = max(self.most[queue], self.running[queue])
            await asyncio.sleep(0.05)
            self.running[queue] -= 1

        self.topic, self.group = topic, group
        self.app: App = application(cluster.name_server, note, **(settings or {}))

    @property
    def queues(self) -> set[int]:
        return set(owned(self.app, self.group, self.topic))

    def names(self, problem: str, lines: Lines) -> bool:
        """Whether it has said what is wrong with its group."""
        return any(
            line["reason"] == problem and line["us"] == self.app.member
            for line in lines
            if line["event"] == "group inconsistent"
        )


async def send(cluster: Addresses, topic: str, *tags: str) -> set[tuple[int, bytes]]:
    """To each queue so many, with each of the tags in turn; (queue, body), a body being `TAG NUMBER`."""
    sent: set[tuple[int, bytes]] = set()
    async with Producer(name_servers=[cluster.name_server]) as producer:
        for queue in range(QUEUES):
            for number in range(COUNT):
                tag = tags[number % len(tags)]
                body = f"{tag} {number}".encode()
                await producer.send(topic, body, tags=tag, queue=MessageQueue(topic, "broker-a", queue))
                sent.add((queue, body))
    return sent


def test_an_orderly_and_a_concurrent_member_divide_the_queues_and_order_is_kept_by_one(
    cluster: Addresses, new_topic: Callable[..., str], lines: Lines
) -> None:
    """Nothing is lost or repeated, but only in the orderly one's queues does one message wait for another."""
    topic = new_topic(queues=QUEUES)
    group = f"mixed-on-{topic}"

    async def scenario() -> None:
        orderly, concurrent = (Member(cluster, topic, group, orderly=each) for each in (True, False))
        async with running(orderly.app, concurrent.app):
            await until(lambda: len(orderly.queues) == len(concurrent.queues) == 2)
            assert set(range(QUEUES)) == orderly.queues | concurrent.queues
            sent = await send(cluster, topic, "any")
            await until(lambda: sent <= {*orderly.given, *concurrent.given})
            await until(lambda: orderly.names(OTHER_ORDER, lines) and concurrent.names(OTHER_ORDER, lines))
            assert not orderly.app.is_ready
            assert not concurrent.app.is_ready
            assert orderly.queues == {queue for queue, _ in orderly.given}
            assert concurrent.queues == {queue for queue, _ in concurrent.given}
            assert {1} == set((orderly.given + concurrent.given).values())
            assert {1} == set(orderly.most.values())
            assert 1 < max(concurrent.most.values())

    asyncio.run(scenario())


def test_beside_a_broadcasting_member_what_is_in_its_share_is_handled_by_no_other(
    cluster: Addresses, new_topic: Callable[..., str], tmp_path: Path, lines: Lines
) -> None:
    """It is listed as a member, so queues are given to it; it takes all, and commits nothing for the group."""
    topic = new_topic(queues=QUEUES)
    group = f"mixed-on-{topic}"

    async def scenario() -> None:
        offsets = {"broadcasting": {"folder": str(tmp_path), "name": "all"}}
        everything = Member(cluster, topic, group, offsets, broadcasting=True)
        share = Member(cluster, topic, group)
        async with running(everything.app, share.app):
            await until(lambda: len(everything.queues) == QUEUES and len(share.queues) == 2)
            sent = await send(cluster, topic, "any")
            await until(lambda: sent <= set(everything.given))
            await until(lambda: {each for each in sent if each[0] in share.queues} <= set(share.given))
            await until(lambda: share.names(OTHER_MODEL, lines) and everything.names(OTHER_MODEL, lines))
            assert share.queues == {queue for queue, _ in share.given}, "half of it is for nobody"

    asyncio.run(scenario())


def test_members_of_other_tags_lose_what_the_other_one_would_have_taken(
    cluster: Addresses, admin: Admin, new_topic: Callable[..., str], lines: Lines
) -> None:
    """Brokers filter by the subscription that they were told last, members by their own; offsets pass all the rest."""
    topic = new_topic(queues=QUEUES)
    group = f"mixed-on-{topic}"

    async def scenario() -> None:
        red, blue = (Member(cluster, topic, group, tags=tag) for tag in ("red", "blue"))
        async with running(red.app, blue.app):
            await until(lambda: len(red.queues) == len(blue.queues) == 2)
            await until(lambda: red.names(OTHER_TOPICS, lines) and blue.names(OTHER_TOPICS, lines))
            sent = await send(cluster, topic, "red", "blue")
            await until(lambda: red.given or blue.given)
            await until_passed(admin, group)
            handled = {*red.given, *blue.given}
            assert handled < sent, "some have gone unhandled, and the group is not behind"
            assert all(queue in red.queues and body.startswith(b"red") for queue, body in red.given)
            assert all(queue in blue.queues and body.startswith(b"blue") for queue, body in blue.given)
            assert len(handled) <= len(sent) / 2

    asyncio.run(scenario())


def test_members_of_other_topics_leave_half_of_each_to_nobody(
    cluster: Addresses, new_topic: Callable[..., str], lines: Lines
) -> None:
    """Each is given a part of the other one's topic, which it does not consume; its own part it does."""
    topics = [new_topic(queues=QUEUES), new_topic(queues=QUEUES)]
    group = f"mixed-on-{topics[0]}"

    async def scenario() -> None:
        members = [Member(cluster, topic, group) for topic in topics]
        async with running(*(each.app for each in members)):
            await until(lambda: [2, 2] == [len(each.queues) for each in members])
            for each in members:
                sent = await send(cluster, each.topic, "any")
                own = {(queue, body) for queue, body in sent if queue in each.queues}
                await until(lambda own=own, each=each: own <= set(each.given))  # type: ignore[misc]  # mypy knows no default
                assert own == set(each.given)
            await until(lambda: all(each.names(OTHER_TOPICS, lines) for each in members))

    asyncio.run(scenario())


async def until_passed(admin: Admin, group: str) -> None:
    async with asyncio.timeout(60):
        while await asyncio.to_thread(lag, admin, group):  # noqa: ASYNC110 - it is another program's state
            await asyncio.sleep(0.3)
