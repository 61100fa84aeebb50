"""Popping: what a group that pops has in the place of queues that are divided, offsets and copies. Wiring only.

A popped queue stands for all queues of one broker (number -1). Every member owns it; which message goes to which
member, the broker decides. Of a group that has gone back to pulling, what came back of its pops is popped (-2): no pull
ever asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from framework.client.cluster import Cluster
from framework.client.popper import ANY_QUEUE, ANY_RETRY
from framework.model.contracts import AllocationStrategy
from framework.model.delay_levels import BY_ATTEMPT, DELAYS_MS, FIRST_RETRY_LEVEL, LEVEL_MAX, TO_DEAD_LETTERS
from framework.model.message import Message
from framework.model.queue import MessageQueue
from framework.model.reserved import RETRY_PREFIX, pop_retry_topic
from framework.runtime.group.plan import GroupPlan
from framework.services.outcome.retry_sender import SendsBack
from framework.services.queue.popped import PopQueue
from framework.services.queue.position import KeepsOffsets

POP = "POP"


def is_any(queue: MessageQueue) -> bool:
    """Whether it is popped: it stands for several queues of its broker."""
    return queue.number < 0


class PopRoutes:
    """The queues to divide: of a popped topic one per broker; of the others those that there are, and one per broker
    for what came back of pops.
    """

    def __init__(self, plan: GroupPlan, cluster: Cluster, member: str) -> None:
        self._plan, self._cluster, self._member, routes = plan, cluster, member, cluster.routes
        self.brokers_of, self.known, self.away, self.makes_topics = (
            routes.brokers_of, routes.known, routes.away, routes.makes_topics,
        )  # fmt: skip

    async def queues(self, topic: str) -> list[MessageQueue]:
        found = await self._cluster.routes.queues(topic)
        if topic.startswith(RETRY_PREFIX) or not found:
            return found
        if await self._is_popped(topic):
            return _one_per_broker(topic, found, ANY_QUEUE)
        returned, routes = pop_retry_topic(self._plan.name, topic), self._cluster.routes
        # Brokers make it when the first popped message comes back. Most groups have none, and it is not kept in mind.
        back = await routes.queues(returned) if await routes.knows(returned) else []
        return [*found, *_one_per_broker(topic, back, ANY_RETRY)]

    async def _is_popped(self, topic: str) -> bool:
        if self._plan.settings.delivery == "pop":
            return True
        return await self._cluster.brokers.asked_mode(self._plan.name, topic, self._member) == POP


def _one_per_broker(topic: str, queues: Sequence[MessageQueue], number: int) -> list[MessageQueue]:
    return [MessageQueue(topic, broker, number) for broker in dict.fromkeys(queue.broker for queue in queues)]


class EachAll:
    """The group's strategy; but every member owns each popped queue."""

    def __init__(self, strategy: AllocationStrategy) -> None:
        self._strategy, self.name = strategy, strategy.name

    def allocate(self, member: str, members: Sequence[str], queues: Sequence[MessageQueue]) -> list[MessageQueue]:
        popped = [queue for queue in queues if is_any(queue)]
        divided = [queue for queue in queues if not is_any(queue)]
        if not divided and popped:
            return popped
        return [*popped, *self._strategy.allocate(member, members, divided)]


class PopOffsets:
    """The brokers' offsets; those of popped queues are the brokers' own affair, and what we count is told nobody."""

    def __init__(self, offsets: KeepsOffsets) -> None:
        self._offsets = offsets

    async def commit_one_way(
        self, group: str, queue: MessageQueue, committable: Callable[[], int | None]
    ) -> int | None:
        if is_any(queue):
            return committable()
        return await self._offsets.commit_one_way(group, queue, committable)

    async def commit(self, group: str, queue: MessageQueue, offset: int) -> None:
        if not is_any(queue):
            await self._offsets.commit(group, queue, offset)

    async def query_offset(self, group: str, queue: MessageQueue) -> int | None:
        return None if is_any(queue) else await self._offsets.query_offset(group, queue)

    async def min_offset(self, queue: MessageQueue) -> int:
        return 0 if is_any(queue) else await self._offsets.min_offset(queue)

    async def max_offset(self, queue: MessageQueue) -> int:
        return 0 if is_any(queue) else await self._offsets.max_offset(queue)

    async def search_offset(self, queue: MessageQueue, timestamp_ms: int) -> int:
        return 0 if is_any(queue) else await self._offsets.search_offset(queue, timestamp_ms)


class PopCopies:
    """A popped message needs no copy to be retried: it becomes visible again. Dead letters are copies as ever."""

    def __init__(self, copies: SendsBack, popped: Callable[[], Sequence[PopQueue]]) -> None:
        self._copies, self._popped = copies, popped
        self.send_again, self.dead_letter = copies.send_again, copies.dead_letter

    async def send_back(self, message: Message, group: str, *, delay_level: int, max_retries: int) -> None:
        if delay_level != TO_DEAD_LETTERS:
            for queue in self._popped():
                if await queue.retry(message, _delay_ms(message, delay_level)):
                    return
        await self._copies.send_back(message, group, delay_level=delay_level, max_retries=max_retries)


def _delay_ms(message: Message, level: int) -> int:
    """As long as a copy would wait."""
    if level == BY_ATTEMPT:
        level = FIRST_RETRY_LEVEL + message.attempt - 1
    return DELAYS_MS[min(level, LEVEL_MAX) - 1]
