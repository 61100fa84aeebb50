"""Where pulls of a queue stop on a real cluster: at the very message that passes a bound, and not one before."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from framework import Message, consumer
from framework.model.snapshot import QueueSnapshot
from tests.interop.cluster import Addresses
from tests.interop.inside import application, running
from tests.interop.java_peer import JavaPeer, Outgoing
from tests.patience import until

pytestmark = pytest.mark.interop

PLACE = ("broker-a", 0)
MORE = 3


class Held:
    """A topic of one queue; a group of it whose handler lets nothing end, or nothing but the first message."""

    def __init__(self, java: JavaPeer, name_server: str, topic: str) -> None:
        self._java, self._name_server, self.topic = java, name_server, topic
        self.handled: list[int] = []
        self.sent = 0

    def send(self, body: bytes) -> None:
        self.sent += 1
        self._java.send(self._name_server, self.topic, [Outgoing(body=body)], queue=PLACE)

    def fill(self, count: int) -> None:
        self.sent += count
        self._java.fill(self._name_server, self.topic, count)

    @asynccontextmanager
    async def consumed(
        self, group: str, *, ends: Callable[[Message], bool] = lambda _: False, **settings: Any
    ) -> AsyncIterator[Callable[[], QueueSnapshot]]:
        """What the queue is like, while it is consumed; what waits in handlers ends at the end."""
        over = asyncio.Event()

        @consumer(self.topic, group)
        async def hold(message: Message) -> None:
            if not ends(message):
                await over.wait()
            self.handled.append(message.queue_offset)

        app = application(self._name_server, hold, of_group={"concurrency": 2, **settings})
        async with running(app):
            await until(lambda: queues_of(app, self.topic))
            try:
                yield lambda: queues_of(app, self.topic)[0]
            finally:
                over.set()
                await until(lambda: self.sent == len(self.handled))  # a pull that was held goes on, too


def queues_of(app: Any, topic: str) -> list[QueueSnapshot]:
    return [each for group in app.snapshot().groups for each in group.queues if each.place.topic == topic]


@pytest.fixture
def held(java: JavaPeer, cluster: Addresses, new_topic: Callable[..., str]) -> Held:
    return Held(java, cluster.name_server, new_topic(queues=1))


async def look_at_edge(held: Held, queue: Callable[[], QueueSnapshot], edge: int, reason: str, body: bytes) -> None:
    """At the bound the queue is still pulled from; one more message, and it is not until there is room."""
    await until(lambda: queue().next_offset == edge)
    assert ("flowing", None) == (queue().state, queue().reason)
    held.send(body)
    await until(lambda: queue().state == "held")
    assert (edge + 1, reason) == (queue().next_offset, queue().reason)
    for _ in range(MORE):
        held.send(body)
    await asyncio.sleep(0.5)  # a held pull would be answered within milliseconds
    assert (edge + 1, "held", reason) == (queue().next_offset, queue().state, queue().reason)


def everything(held: Held, edge: int) -> None:
    assert list(range(edge + 1 + MORE)) == sorted(held.handled)


def test_a_thousand_messages_go_on_and_one_more_holds(held: Held) -> None:
    async def scenario() -> None:
        async with held.consumed("held-by-count") as queue:
            await look_at_edge(held, queue, 1_000, "count", b"more")
        everything(held, 1_000)

    held.fill(1_000)
    asyncio.run(scenario())


def test_bytes_up_to_the_bound_go_on_and_one_message_more_holds(held: Held) -> None:
    """What messages weigh is what they weigh on the wire: it is taken from a first group, and bounds a second one."""
    body = Random(7).randbytes(20_000)  # which no producer compresses

    async def scenario() -> None:
        async with held.consumed("weighs") as queue:
            await until(lambda: queue().messages == 5)
            weight = queue().bytes
        assert weight > 5 * len(body)
        held.handled.clear()
        async with held.consumed("held-by-bytes", cache_bytes=weight) as queue:
            await look_at_edge(held, queue, 5, "bytes", body)
        everything(held, 5)

    for _ in range(5):
        held.send(body)
    asyncio.run(scenario())


def is_behind_the_first(message: Message) -> bool:
    return message.queue_offset > 0


def test_a_span_of_two_thousand_goes_on_and_one_offset_more_holds(held: Held) -> None:
    """The first message is stuck, all others have ended: only the distance is left to bound."""

    async def scenario() -> None:
        # Where what has ended is kept, which begins after two seconds, a distance bounds nothing.
        async with held.consumed("held-by-span", ends=is_behind_the_first, progress="none") as queue:
            await until(lambda: len(held.handled) == 2_000)
            await look_at_edge(held, queue, 2_001, "span", b"more")
        everything(held, 2_001)

    held.fill(2_001)
    asyncio.run(scenario())
