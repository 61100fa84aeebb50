"""Members of ours whose clocks are an hour fast and slow, beside a Java member, on a real cluster.

The five minutes of joins and leaves are `make slow PART=clocks`; a round of them is run with the others.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from framework import App, Message, Producer, consumer
from framework.hooks.host import PluginHost
from framework.model.queue import MessageQueue
from framework.net.real_world import real_world
from framework.settings.schema import AppSettings
from tests.interop.cluster import Addresses
from tests.interop.java_peer import JavaPeer, Member
from tests.patience import until

pytestmark = pytest.mark.interop
HOUR_MS = 3_600_000
QUEUES = 6


class Shifted:
    """This machine's clocks, the one on the wall an hour off."""

    def __init__(self, by_ms: int) -> None:
        self._clock, self._by_ms = real_world().clock, by_ms
        self.monotonic, self.monotonic_ms = self._clock.monotonic, self._clock.monotonic_ms

    def now_ms(self) -> int:
        return self._clock.now_ms() + self._by_ms


class Ours:
    """One of our members, in this process."""

    def __init__(self, name_server: str, group: str, topic: str, by_ms: int) -> None:
        self.topic, self.group, self.by_ms = topic, group, by_ms
        self.handled: list[bytes] = []

        async def note(message: Message) -> None:
            self.handled.append(message.body)

        self._note = note
        settings = AppSettings.model_validate(
            {"cluster": {"name_servers": [name_server]}, "consumers": {group: {"start": "first"}}}
        )
        world = replace(real_world(), clock=Shifted(by_ms))
        handlers = [consumer(topic, group, tags="a")(note)]
        self.app = App(settings, handlers, world=world, plugins=PluginHost(discover=lambda: ()))
        self._running = asyncio.get_running_loop().create_task(self.app.run())

    def subscribe(self, tags: str) -> None:
        self.app.subscribe(consumer(self.topic, self.group, tags=tags)(self._note))

    @property
    def owned(self) -> list[int]:
        groups = self.app.snapshot().groups
        queues = groups[0].queues if groups else ()
        return sorted(each.place.number for each in queues if each.place.topic == self.topic and not each.is_retiring)

    async def leave(self) -> None:
        await self.app.stop()
        await self._running


async def divided(ours: list[Ours], theirs: Member, topic: str) -> None:
    """Wait until each has what Java's own strategy says, and nobody anything else."""
    for _ in range(600):
        share = await asyncio.to_thread(theirs.share, topic)
        found = {member.app.member: member.owned for member in ours} | {share.client_id: share.owned}
        if share.shares == found:
            break
        await asyncio.sleep(0.1)
    assert share.shares == found


async def changes_at_once(slow: Ours, name_server: str) -> None:
    """What the slow member's old expression leaves out comes as soon as its new one asks for it."""
    queues = slow.owned
    assert queues
    slow.subscribe("a || b")
    bodies = [f"{number} {time.monotonic()}" for number in queues]
    async with Producer(name_servers=[name_server]) as producer:
        for number, body in zip(queues, bodies, strict=True):
            queue = MessageQueue(slow.topic, "broker-a", number)
            await producer.send(Message(slow.topic, body, tags="b"), queue=queue)
        await until(lambda: {body.encode() for body in bodies} <= set(slow.handled), "what only the new one asks for")
    slow.subscribe("a")


async def scenario(cluster: Addresses, java: JavaPeer, topic: str, seconds: float) -> list[dict[str, Any]]:
    group = f"clocks-of-{topic}"

    def start(by_ms: int) -> Ours:
        return Ours(cluster.name_server, group, topic, by_ms)

    with capture_logs() as said:
        ours = [start(HOUR_MS)]
        theirs = await asyncio.to_thread(java.consume, cluster.name_server, group, topic, tags="a")
        ours.append(start(-HOUR_MS))
        await divided(ours, theirs, topic)
        for member in ours:
            clock = member.app.snapshot().clock
            assert clock.low_ms <= member.by_ms + 50
            assert member.by_ms - 50 <= clock.high_ms
            assert clock.high_ms - clock.low_ms < HOUR_MS / 10
        await changes_at_once(ours[1], cluster.name_server)
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            for by_ms in (HOUR_MS, -HOUR_MS):
                (going,) = (member for member in ours if member.by_ms == by_ms)
                await going.leave()
                ours.remove(going)
                await divided(ours, theirs, topic)
                ours.append(start(by_ms))
                await divided(ours, theirs, topic)
        (slow,) = (member for member in ours if member.by_ms < 0)
        await divided(ours, theirs, topic)  # those whose topic was consumed otherwise came anew
        await changes_at_once(slow, cluster.name_server)
        await asyncio.to_thread(theirs.leave)
        for member in ours:
            await member.leave()
    return [dict(each) for each in said]


def lasting(said: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Refusals because of a version that no heartbeat mended."""
    refused = [each for each in said if each["event"] == "pull failed" and "code 25" in str(each["reason"])]
    mended = [each for each in said if each["event"] == "pull recovered"]
    return refused if len(refused) > len(mended) else []


def test_clocks_an_hour_off_share_with_java_and_change_at_once(
    cluster: Addresses, java: JavaPeer, new_topic: Callable[..., str]
) -> None:
    said = asyncio.run(scenario(cluster, java, new_topic(queues=QUEUES), seconds=0))
    assert [] == lasting(said)
    assert 2 == sum(each["event"] == "local clock skewed" for each in said)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_clocks_an_hour_off_bear_five_minutes_of_joins_and_leaves(
    cluster: Addresses, java: JavaPeer, new_topic: Callable[..., str]
) -> None:
    assert [] == lasting(asyncio.run(scenario(cluster, java, new_topic(queues=QUEUES), seconds=300)))
