"""Which queue an order key has, and whose turn it is among sends of one key.

One key, one queue, as Java's SelectMessageQueueByHash chooses it, so that producers in both languages agree. Java moves
keys as soon as a broker is left out of the route. Here a topic keeps the queues that it had while its route was whole:
a key whose broker is away waits or fails, and never goes to another queue in silence. It sends nothing itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from framework.model.queue import MessageQueue
from framework.model.subscription import java_hash
from framework.net.route import Route


def queue_of_key(queues: Sequence[MessageQueue], key: str) -> MessageQueue:
    """Java's SelectMessageQueueByHash. `queues` in Java's order: by broker name, then by number.

    Java takes the remainder first and its absolute value then, so the smallest int needs no rule of its own.
    """
    return queues[abs(java_hash(key)) % len(queues)]


class KeyedQueues:
    """One a producer: the queues that each topic's order keys are spread over."""

    def __init__(self) -> None:
        self._whole: dict[str, tuple[MessageQueue, ...]] = {}

    def knows(self, topic: str) -> bool:
        """Whether there are queues of it that keys belong to, though nothing of its route may take writes now."""
        return topic in self._whole

    def queue_of(self, topic: str, route: Route, key: str) -> tuple[MessageQueue, bool]:
        """The key's queue, and whether it can be sent to by this route."""
        queue = queue_of_key(self._settled(topic, route), key)
        return queue, queue in route.writable

    def _settled(self, topic: str, route: Route) -> tuple[MessageQueue, ...]:
        """Of a route without one of the brokers that it had: the queues before. They are taken back once it is there.

        More or fewer queues on the same brokers are somebody's decision, and move keys at once, as in Java.
        """
        if route.order:
            return route.order
        before = self._whole.get(topic)
        if before is not None and before != route.writable:
            brokers = {queue.broker for queue in route.writable}
            if not all(queue.broker in brokers for queue in before):
                return before
        self._whole[topic] = route.writable
        return route.writable


class KeyTurns:
    """Sends of one key that are made at once go out one after the other, in the order of their calls."""

    def __init__(self) -> None:
        self._lanes: dict[tuple[str, str], _Lane] = {}

    @asynccontextmanager
    async def turn(self, topic: str, key: str) -> AsyncIterator[None]:
        place = topic, key
        lane = self._lanes.get(place)
        if lane is None:
            lane = self._lanes[place] = _Lane()
        lane.users += 1
        try:
            async with lane.lock:
                yield
        finally:
            lane.users -= 1
            if not lane.users:
                del self._lanes[place]


class _Lane:
    __slots__ = ("lock", "users")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()  # it is fair: who came first goes first
        self.users = 0
