"""Java's members and ours in one group on a real cluster: one division, and no queue waits when one leaves."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, MutableMapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from framework import App, Message, Producer, consumer
from framework.errors import BrokerUnreachable, Refused
from framework.hooks.host import PluginHost
from framework.model.queue import MessageQueue
from framework.net.real_world import real_world
from framework.settings.schema import AppSettings
from tests.interop.cluster import Addresses, Cluster, Shape
from tests.interop.java_peer import JavaPeer
from tests.interop.mqadmin import Admin
from tests.interop.processes import Nursery
from tests.patience import PATIENCE_S, until

pytestmark = pytest.mark.interop

QUEUES = 10
BOUNDS_S = pytest.mark.parametrize(
    "bound_s",
    [pytest.param(PATIENCE_S, id="at load"), pytest.param(2.0, id="within two seconds", marks=pytest.mark.slow)],
)
"""How long a queue may be without an owner after a clean leave, or without deliveries."""
# Java's nearby asks a class for rooms: its own member is in one without brokers, the brokers are where we are.
OUR_ROOM = ["broker-", f"{real_world().identity.host}@{real_world().identity.process}#"]
ALLOCATIONS: dict[str, object] = {
    "averaging": "averaging",
    "circle": "circle",
    "consistent_hash": "consistent_hash",
    "nearby": {
        "nearby": {"over": "circle", "rooms": {"ours": OUR_ROOM, "theirs": [str(digit) for digit in range(10)]}}
    },
}


class Ours:
    """One of our members, in this process."""

    def __init__(self, name_server: str, group: str, topic: str, allocation: object = "averaging") -> None:
        self.topic = topic
        self.handled: list[tuple[bytes, float]] = []
        """Bodies, and when their handler was called."""

        @consumer(topic=topic, group=group)
        async def note(message: Message) -> None:
            self.handled.append((message.body, time.time()))

        settings = AppSettings.model_validate(
            {
                "cluster": {"name_servers": [name_server]},
                "consumers": {group: {"start": "first", "allocation": allocation}},
            }
        )
        self.app = App(settings, [note], plugins=PluginHost(discover=lambda: ()))
        self._running = asyncio.get_running_loop().create_task(self.app.run())

    @property
    def owned(self) -> list[int]:
        groups = self.app.snapshot().groups
        queues = groups[0].queues if groups else ()
        return sorted(each.place.number for each in queues if each.place.topic == self.topic and not each.is_retiring)

    async def leave(self) -> None:
        await self.app.stop()
        await self._running


@pytest.mark.parametrize("strategy", sorted(ALLOCATIONS))
def test_java_and_we_divide_a_topic_alike(
    strategy: str, cluster: Addresses, java: JavaPeer, new_topic: Callable[..., str]
) -> None:
    """Java's own class says what each of the three is to have; and that is what each of them has."""
    divide_alike(java, cluster.name_server, new_topic(queues=QUEUES), strategy, ALLOCATIONS[strategy])


def divide_alike(java: JavaPeer, name_server: str, topic: str, strategy: str, allocation: object) -> None:
    """One Java member and two of ours: until each of them has what Java's class says."""
    group = f"sharers-of-{topic}"

    async def scenario() -> None:
        ours = [Ours(name_server, group, topic, allocation) for _ in range(2)]
        theirs = await asyncio.to_thread(java.consume, name_server, group, topic, strategy=strategy)
        for _ in range(600):
            share = await asyncio.to_thread(theirs.share, topic)
            found = {member.app.member: member.owned for member in ours} | {share.client_id: share.owned}
            if len(share.shares) == 3 and share.shares == found:
                break
            await asyncio.sleep(0.1)
        await asyncio.to_thread(theirs.leave)
        for member in ours:
            await member.leave()
        assert share.shares == found
        assert list(range(QUEUES)) == sorted(number for numbers in found.values() for number in numbers)

    asyncio.run(scenario())


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_java_and_we_divide_the_rooms_named_brokers_alike(
    java: JavaPeer, nursery: Nursery, numbers: Callable[[], str], tmp_path: Path
) -> None:
    """Its broker must be named after its room, so it has a cluster of its own: `make slow PART=rooms_named`."""
    cluster = Cluster(tmp_path, nursery, Shape(settings={"brokerName": "east@broker-a"}))
    try:
        cluster.start()
        topic = f"rooms-{numbers()}"
        Admin(java, cluster.name_server).run(
            "updateTopic", "-c", "DefaultCluster", "-t", topic, "-r", str(QUEUES), "-w", str(QUEUES)
        )
        divide_alike(java, cluster.name_server, topic, "machine_room", {"machine_room": {"rooms": ["east", "west"]}})
    finally:
        cluster.stop()


@asynccontextmanager
async def traffic(name_server: str, topic: str, queues: int) -> AsyncIterator[list[str]]:
    """A message to each queue each tenth of a second: `QUEUE SECONDS`; yields those that are sent."""
    sent: list[str] = []
    loop = asyncio.get_running_loop()

    async def send(producer: Producer, number: int) -> None:
        body = f"{number} {time.time():.3f}"
        with suppress(Refused, BrokerUnreachable):  # a busy broker's; nobody waits for what it may not have taken
            await producer.send(topic, body, queue=MessageQueue(topic, "broker-a", number))
            sent.append(body)

    async def keep_sending() -> None:
        async with Producer(name_servers=[name_server]) as producer:
            while not is_over.is_set():
                await asyncio.gather(*(send(producer, number) for number in range(queues)), asyncio.sleep(0.1))

    is_over = asyncio.Event()
    sending = loop.create_task(keep_sending())
    try:
        yield sent
    finally:
        is_over.set()
        await sending


def longest_wait(handled: Iterable[tuple[bytes, float]]) -> float:
    """From a message's sending to its first handling."""
    first: dict[bytes, float] = {}
    for body, at in handled:
        first[body] = min(at, first.get(body, at))
    return max(at - float(body.split()[1]) for body, at in first.items())


@BOUNDS_S
def test_no_queue_waits_when_a_member_leaves(
    bound_s: float, cluster: Addresses, java: JavaPeer, new_topic: Callable[..., str]
) -> None:
    """Java's member leaves and then one of ours: what is sent meanwhile is handled, by somebody, within the bound."""
    topic = new_topic(queues=QUEUES)
    group = f"sharers-of-{topic}"

    async def scenario() -> None:
        ours = [Ours(cluster.name_server, group, topic) for _ in range(2)]
        theirs = await asyncio.to_thread(java.consume, cluster.name_server, group, topic)
        async with asyncio.timeout(PATIENCE_S):
            while len((await asyncio.to_thread(theirs.share, topic)).owned) not in {3, 4}:  # noqa: ASYNC110 - likewise
                await asyncio.sleep(0.1)
        await until(lambda: sum(len(member.owned) for member in ours) in {6, 7})
        async with traffic(cluster.name_server, topic, QUEUES) as sent:
            first = await asyncio.to_thread(theirs.received, 20)  # half a second after it was given a queue, or later
            await asyncio.to_thread(theirs.leave)
            await until(lambda: sum(len(member.owned) for member in ours) == QUEUES, patience_s=bound_s)
            await asyncio.sleep(0.5)
            await ours[1].leave()
            await until(lambda: len(ours[0].owned) == QUEUES, patience_s=bound_s)
            await asyncio.sleep(0.5)
        incoming = first + await asyncio.to_thread(theirs.received, 10**6, timeout_s=0.1)
        in_java = [(each.body, each.at_ms / 1000) for each in incoming]
        elsewhere = {body for body, _ in ours[1].handled + in_java}
        await until(lambda: {each.encode() for each in sent} <= elsewhere | {body for body, _ in ours[0].handled})
        await ours[0].leave()
        assert first
        assert longest_wait(ours[0].handled + ours[1].handled + in_java) < bound_s

    asyncio.run(scenario())


@BOUNDS_S
def test_a_surplus_member_says_so_and_takes_over_when_another_leaves(
    bound_s: float, cluster: Addresses, new_topic: Callable[..., str]
) -> None:
    """Three members on two queues: one of them has none, names the numbers, and has one soon after another left."""
    topic = new_topic(queues=2)
    group = f"sharers-of-{topic}"

    async def scenario() -> None:
        members = [Ours(cluster.name_server, group, topic) for _ in range(3)]
        await until(lambda: sorted(len(each.owned) for each in members) == [0, 1, 1])
        (surplus,) = (each for each in members if not each.owned)
        await until(lambda: bool(surplus_lines(lines)))
        leaver, stayer = (each for each in members if each.owned)
        async with traffic(cluster.name_server, topic, 2) as sent:
            await asyncio.sleep(0.5)
            await leaver.leave()
            await until(lambda: len(surplus.owned) == 1, patience_s=bound_s)
            await asyncio.sleep(1)
        told = {each.encode() for each in sent}
        await until(lambda: told <= {body for member in members for body, _ in member.handled})
        await surplus.leave()
        await stayer.leave()
        assert surplus.handled
        assert longest_wait(pair for member in members for pair in member.handled) < bound_s

    with capture_logs() as lines:
        asyncio.run(scenario())
    assert {(group, 2, 3)} == {(each["group"], each["queues"], each["members"]) for each in surplus_lines(lines)[-1:]}


HOST = real_world().identity.host


def test_by_config_java_lists_its_queues_and_we_ours_and_what_nobody_lists_is_said_once(
    cluster: Addresses, java: JavaPeer, new_topic: Callable[..., str]
) -> None:
    """Java's class checks nothing, so both sides write the same table: 0 to 3 are Java's, 4 to 7 ours.
    When Java's member has left, its queues have no owner either, and that is said in turn.
    """
    topic = new_topic(queues=QUEUES)
    group = f"sharers-of-{topic}"
    ours_begin, theirs_begin = f"{HOST}@{real_world().identity.process}#", f"{HOST}@member-"
    table = {ours_begin: [f"{topic}@broker-a:4-7"], theirs_begin: [f"{topic}@broker-a:0-3"]}
    allocation = {"by_config": {"members": table}}

    async def scenario() -> None:
        ours = Ours(cluster.name_server, group, topic, allocation)
        theirs = await asyncio.to_thread(
            java.consume, cluster.name_server, group, topic, strategy="by_config", queues=[0, 1, 2, 3]
        )
        await until(lambda: any(each.startswith("2 of 10") for each in remarks(lines)))
        async with Producer(name_servers=[cluster.name_server]) as producer:
            for number in range(8):
                await producer.send(topic, str(number), queue=MessageQueue(topic, "broker-a", number))
        in_java = await asyncio.to_thread(theirs.received, 4)
        await until(lambda: len(ours.handled) == 4)
        share = await asyncio.to_thread(theirs.share, topic)
        owned = ours.owned
        await asyncio.to_thread(theirs.leave)
        await until(lambda: remarks(lines)[-1].startswith("6 of 10"))
        await ours.leave()
        assert ([0, 1, 2, 3], [4, 5, 6, 7]) == (share.owned, owned)
        assert {b"0", b"1", b"2", b"3"} == {each.body for each in in_java}
        assert {b"4", b"5", b"6", b"7"} == {body for body, _ in ours.handled}

    with capture_logs() as lines:
        asyncio.run(scenario())
    told = remarks(lines)
    unnamed = [each for each in told if each.startswith("2 of 10 queues are named by nobody")]
    assert 1 == len(unnamed), told
    assert f"{topic}@broker-a:8, {topic}@broker-a:9" in unnamed[0]
    assert told[-1].startswith("6 of 10 queues are named by nobody"), told


def remarks(lines: list[MutableMapping[str, Any]]) -> list[str]:
    """What the strategy remarked, in order; a line a change."""
    return [remark for line in lines if line["event"] == "allocation incomplete" for remark in line["remarks"]]


def surplus_lines(lines: list[MutableMapping[str, Any]]) -> list[MutableMapping[str, Any]]:
    return [line for line in lines if line["event"] == "member without queues"]
