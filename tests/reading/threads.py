"""A broker in the box on a thread of its own, for code that blocks; and messages put into it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from framework import Message, Producer
from framework.broker.server import Broker
from framework.broker.settings import BrokerSettings
from framework.model.queue import MessageQueue
from framework.model.reserved import AUTO_CREATE_TOPIC, DEAD_LETTER_PREFIX
from framework.net.credentials import Credentials
from framework.net.real_world import real_world
from tests.patience import PATIENCE_S


class ThreadBox:
    """The broker's loop runs on its thread; `call` runs something there and answers what it answered."""

    def __init__(self, **options: Any) -> None:
        self._options = {"settings": BrokerSettings(delays_ms=(50,) * 18), **options}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.broker: Broker

    def start(self) -> None:
        self._thread.start()
        self.call(self._start)

    async def _start(self) -> None:
        self.broker = Broker(real_world(), **self._options)
        await self.broker.start()

    def call(self, work: Callable[[], Any]) -> Any:
        async def run() -> Any:
            result = work()
            return await result if asyncio.iscoroutine(result) else result

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(4 * PATIENCE_S)

    @property
    def address(self) -> str:
        return self.broker.address

    def stop(self) -> None:
        self.call(self.broker.stop)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_S)
        self._loop.close()

    def send(self, topic: str, messages: Sequence[Message], *, queue: int | None = None, broker: str = "") -> None:
        """Send in batches of 100, to one queue where one is named."""

        async def run() -> None:
            async with Producer(name_servers=[self.address], timeout=PATIENCE_S, **self._auth()) as producer:
                if queue is None:
                    for message in messages:
                        await producer.send(message)
                    return
                place = MessageQueue(topic, broker or next(iter(self.broker.brokers)), queue)
                await producer.cluster.routes.queues(AUTO_CREATE_TOPIC)  # where brokers are, also for a new topic
                if topic.startswith(DEAD_LETTER_PREFIX):  # which take single messages only
                    for message in messages:
                        await producer.send(message, queue=place)
                    return
                for at in range(0, len(messages), 100):
                    await producer.send_batch(messages[at : at + 100], queue=place)

        self.call(run)

    def _auth(self) -> dict[str, Any]:
        """As the first of the broker's users."""
        users = self._options.get("auth")
        return {"credentials": Credentials(users[0].name, users[0].password)} if users else {}

    def lose_offsets(self, group: str, broker: str = "") -> None:
        """As a broker has when it was killed before it wrote them down; all brokers, where none is named."""
        nodes = [node for node in self.broker.nodes if node.name == (broker or node.name)]

        def lose() -> None:
            for node in nodes:
                node.offsets.drop_where(group=group)

        self.call(lose)

    def keep_from(self, queue: MessageQueue, low: int) -> None:
        """As if retention had taken what is below."""
        node = next(node for node in self.broker.nodes if node.name == queue.broker)

        def cut() -> None:
            stored = node.queue(queue.topic, queue.number)
            assert stored is not None, queue
            stored.low = low

        self.call(cut)


@contextmanager
def thread_box(**options: Any) -> Iterator[ThreadBox]:
    box = ThreadBox(**options)
    box.start()
    try:
        yield box
    finally:
        box.stop()


def texts(topic: str, count: int, *, start: int = 0, **options: Any) -> list[Message]:
    return [Message(topic, f"m{number}".encode(), **options) for number in range(start, start + count)]
