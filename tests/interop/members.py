"""Members of one group on a real cluster, many of them in one process, each with connections of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from framework import App, Message, consumer
from framework.hooks.host import PluginHost
from framework.settings.schema import AppSettings
from tests.interop.cluster import Addresses

PAUSE_S = 0.05


class Member:
    """One life of one member, in this process."""

    def __init__(
        self, cluster: Addresses, topic: str, name: str, *, progress: str = "none", orderly: bool = False, **app: object
    ) -> None:
        self.name, self.topic = name, topic
        self.handled: list[tuple[int, int]] = []
        """Queue and offset of each message whose handler began."""
        self.owners: set[int] = set()
        """Queues that it had messages of."""

        @consumer(topic=topic, group=group_of(topic), orderly=orderly)
        async def note(message: Message) -> None:
            self.handled.append((message.queue.number, message.queue_offset))
            self.owners.add(message.queue.number)
            await asyncio.sleep(PAUSE_S)

        settings = AppSettings.model_validate(
            {
                "app": {"instance": name, "grace": "20s", **app},
                "cluster": {"name_servers": [cluster.name_server]},
                "consumers": {group_of(topic): {"start": "first", "progress": progress}},
            }
        )
        self.app = App(settings, [note], plugins=PluginHost(discover=lambda: ()))
        self.running = asyncio.get_running_loop().create_task(self.app.run())

    @property
    def owned(self) -> frozenset[int]:
        """Queues that it pulls."""
        return self._queues("flowing", "held")

    @property
    def assigned(self) -> frozenset[int]:
        """Queues that are to be its own, whether or not it has begun with them."""
        return self._queues("claimed", "positioning", "flowing", "held")

    def _queues(self, *states: str) -> frozenset[int]:
        return frozenset(
            each.place.number
            for group in self.app.snapshot().groups
            for each in group.queues
            if each.place.topic == self.topic and not each.is_retiring and each.state in states
        )

    async def leave(self) -> None:
        await self.app.stop()
        await self.running

    async def kill(self) -> None:
        """As SIGKILL looks to a broker: the connections end, and nobody says goodbye."""
        self.running.cancel()
        with suppress(asyncio.CancelledError):
            await self.running


def group_of(topic: str) -> str:
    return f"calm-{topic}"


def are_shared(members: Sequence[Member], queues: int) -> Callable[[], bool]:
    """Whether each of so many queues is one member's, and nobody has two more than another."""

    def shared() -> bool:
        shares = [member.owned for member in members]
        owned = [number for share in shares for number in share]
        is_even = max(map(len, shares)) - min(map(len, shares)) <= 1
        return is_even and len(owned) == queues == len(set(owned))

    return shared


async def end(members: Iterable[Member]) -> None:
    for member in members:
        await member.leave()
