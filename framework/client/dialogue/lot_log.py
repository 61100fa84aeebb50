"""The records of lots where they lie: one queue of one broker. It reads what is new, and writes at the end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from framework.client.dialogue.halves import Preparing
from framework.client.dialogue.lot_records import Done, Record, Standing, body_of, record_in
from framework.errors import BrokerUnreachable, ProtocolError, Refused
from framework.mistakes import TransactionWrong
from framework.model.message import Message
from framework.model.namespaces import unwrap
from framework.model.queue import MessageQueue
from framework.model.reserved import AUTO_CREATE_TOPIC, HALF_TOPIC
from framework.wire.bodies.route import PERM_READ, PERM_WRITE
from framework.wire.exchanges import Exchange, nothing
from framework.wire.requests.admin import UpdateTopicRequest

WINDOW = 8  # records that are read first, from the end on; four times as many each time that no end of a lot is there
PEEK = 64

Insist = Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]


class LotLog:
    """Of one name. It reads forward from the newest end of a lot on: what is before it does not matter."""

    def __init__(self, producer: Preparing, name: str, topic: str, insisting: Insist) -> None:
        self._producer, self._name, self._topic, self._insisting = producer, name, topic, insisting
        self._queue: MessageQueue | None = None
        self._standing = Standing()
        self._next: int | None = None
        """The offset to read next; None before the first reading."""
        self._written = 0
        """Behind what this process has written."""

    async def create(self) -> None:
        """Make the topic on the first broker, by its name; nothing where it is there."""
        routes = self._producer.cluster.routes
        if await routes.refresh(self._topic) is not None:
            return
        await routes.refresh(HALF_TOPIC)
        brokers = routes.brokers_of(HALF_TOPIC)
        if not brokers:
            raise BrokerUnreachable(f"topic {self._topic}: no broker to make it on")
        request = UpdateTopicRequest(
            topic=self._topic, default_topic=AUTO_CREATE_TOPIC, read_queue_nums=1, write_queue_nums=1,
            perm=PERM_READ | PERM_WRITE,
        )  # fmt: skip
        making = Exchange(request, nothing)
        await self._producer.cluster.calls.to(routes.address_of(brokers[0]), making, brokers[0])
        self._queue = MessageQueue(self._topic, brokers[0], 0)

    async def standing(self) -> Standing:
        """What all records come to, those that this process wrote among them."""
        queue = await self._home()
        brokers = self._producer.cluster.brokers
        until = max(await brokers.max_offset(queue), self._written)
        if self._next is None:
            first = await self._newest_end(queue, until)
            if self._next is None:
                self._next = first
        while self._next is not None and self._next < until:
            found = await self._read(queue, self._next)
            if not found:
                raise BrokerUnreachable(f"{queue}: nothing came at offset {self._next}, below its end {until}")
            for offset, record in found:
                if offset < self._next:
                    continue  # another task has read it meanwhile
                if record is not None:
                    self._standing = self._standing.after(record)
                self._next = offset + 1
        return self._standing

    async def write(self, record: Record) -> None:
        """Have it stored durably, once or more often: a second one changes nothing."""
        queue = await self._home()
        bare = unwrap(self._producer.namespace, queue.topic)
        message = Message(bare, body_of(self._name, record), keys=self._name)
        stored = await self._producer.send(message, {}, queue=queue)
        if stored.code:
            raise Refused(
                stored.code, "a record of lots is not durable yet", request=f"send to {bare}", peer=queue.broker
            )
        self._written = max(self._written, stored.queue_offset + 1)

    async def _home(self) -> MessageQueue:
        if self._queue is None:
            route = await self._producer.cluster.routes.refresh(self._topic)
            if route is None or not (route.writable or route.readable):
                raise BrokerUnreachable(
                    f"topic {self._topic}, which has the records of {self._name}, has no route: its broker is away, or "
                    "it was never made"
                )
            queues = [queue for queue in route.writable if queue in route.readable]
            if not queues:
                raise TransactionWrong(
                    f"topic {self._topic} has records of lots, and no queue of it can be both read and written; allow "
                    f"that (`mqadmin updateTopicPerm -b ADDRESS -t {self._topic} -p 6`)"
                )
            if len({queue.broker for queue in queues}) > 1:
                raise TransactionWrong(
                    f"topic {self._topic} has records of lots, and is on several brokers; have it on one (`mqadmin "
                    f"updateTopic -b ADDRESS -t {self._topic} -r 1 -w 1`), for they need one order"
                )
            self._queue = min(queues)
        return self._queue

    async def _newest_end(self, queue: MessageQueue, until: int) -> int:
        """Where the newest end of a lot of this name lies; the beginning where there is none."""
        low = await self._producer.cluster.brokers.min_offset(queue)
        window, end = WINDOW, until
        while end > low:
            start = at = max(low, end - window)
            newest: int | None = None
            while at < end:
                found = await self._read(queue, at)
                if not found:
                    raise BrokerUnreachable(f"{queue}: nothing came at offset {at}, below {end}")
                newest = max((offset for offset, each in found if isinstance(each, Done)), default=newest)
                at = found[-1][0] + 1
            if newest is not None:
                return newest
            window, end = window * 4, start
        return low

    async def _read(self, queue: MessageQueue, offset: int) -> list[tuple[int, Record | None]]:
        messages = await self._producer.cluster.brokers.peek(self._producer.group, queue, offset, PEEK)
        return [(each.queue_offset, self._record(queue, each)) for each in messages]

    def _record(self, queue: MessageQueue, message: Message) -> Record | None:
        try:
            return record_in(self._name, message.body)
        except ProtocolError as error:
            raise TransactionWrong(
                f"topic {queue.topic} is to have records of lots alone, and offset {message.queue_offset} of {queue} "
                f"is none ({error}); give a topic of its own"
            ) from error
