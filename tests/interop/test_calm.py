"""Members that come and go on a real cluster, with names and without: what moves, what comes twice, and how soon all is
shared again. Many members are one process here, each with its connections; a kill ends them without a word.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from framework import App, Message, consumer
from framework.errors import ConfigurationError
from framework.hooks.host import PluginHost
from framework.settings.schema import AppSettings
from tests.interop.cluster import Addresses
from tests.interop.test_sharing import traffic, until

pytestmark = pytest.mark.interop
PAUSE_S = 0.05


class Member:
    """One life of one member, in this process."""

    def __init__(
        self, cluster: Addresses, topic: str, name: str, *, progress: str = "none", orderly: bool = False, **app: object
    ) -> None:
        self.name, self.topic = name, topic
        self.handled: list[tuple[bytes, float]] = []
        self.owners: set[int] = set()

        @consumer(topic=topic, group=f"calm-{topic}", orderly=orderly)
        async def note(message: Message) -> None:
            self.handled.append((message.body, time.monotonic()))
            self.owners.add(message.queue.number)
            await asyncio.sleep(PAUSE_S)

        settings = AppSettings.model_validate(
            {
                "app": {"instance": name, "grace": "20s", **app},
                "cluster": {"name_servers": [cluster.name_server]},
                "consumers": {f"calm-{topic}": {"start": "first", "progress": progress}},
            }
        )
        self.app = App(settings, [note], plugins=PluginHost(discover=lambda: ()))
        self.running = asyncio.get_running_loop().create_task(self.app.run())

    @property
    def owned(self) -> frozenset[int]:
        groups = self.app.snapshot().groups
        return frozenset(
            each.place.number
            for group in groups
            for each in group.queues
            if each.place.topic == self.topic and not each.is_retiring and each.state == "flowing"
        )

    async def leave(self) -> None:
        await self.app.stop()
        await self.running

    async def kill(self) -> None:
        """As SIGKILL looks to a broker: the connections end, and nobody says goodbye."""
        self.running.cancel()
        with suppress(asyncio.CancelledError):
            await self.running


def are_shared(members: list[Member], queues: int) -> Callable[[], bool]:
    def shared() -> bool:
        shares = [member.owned for member in members]
        owned = [number for share in shares for number in share]
        is_even = max(map(len, shares)) - min(map(len, shares)) <= 1
        return is_even and len(owned) == queues == len(set(owned))

    return shared


async def end(members: list[Member]) -> None:
    for member in members:
        await member.leave()


def test_a_second_process_of_one_name_stops_and_the_first_loses_nothing(
    cluster: Addresses, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(queues=4)

    async def scenario() -> str:
        first = Member(cluster, topic, "twin")
        await until(are_shared([first], 4), 60)
        second = Member(cluster, topic, "twin")
        with pytest.raises(ConfigurationError) as raised:
            await second.running
        assert len(first.owned) == 4
        await first.leave()
        return str(raised.value)

    said = asyncio.run(scenario())
    assert "'twin' is the name of a process on" in said
    assert said.count("process") >= 3


def test_a_member_in_order_that_is_killed_and_started_again_by_its_name_has_its_locks_at_once(
    cluster: Addresses, new_topic: Callable[..., str]
) -> None:
    """Nobody waits for the lock to expire: to the broker it is the same client."""
    topic = new_topic(queues=4)

    async def scenario() -> float:
        members = [Member(cluster, topic, name, orderly=True) for name in ("first", "second")]
        await until(are_shared(members, 4), 60)
        async with traffic(cluster.name_server, topic, 4):
            await until(lambda: len(members[0].owners) == 2, 30)
            await members[0].kill()
            members[0] = Member(cluster, topic, "first", orderly=True)
            again = await until(lambda: len(members[0].owners) == 2, 50)
        await end(members)
        return again

    took = asyncio.run(scenario())
    print(f"orderly take-over by name after a kill: {took:.1f} s")
    assert took < 50
