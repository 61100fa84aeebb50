"""A steady stream of numbered messages into a real cluster, from a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from itertools import count

from framework import Message, Producer
from framework.errors import FrameworkError


class Flow:
    """A steady stream of numbered messages, and the numbers of those that were acknowledged."""

    def __init__(self, name_server: str, topic: str, a_second: float) -> None:
        self.acknowledged: dict[int, tuple[str, int]] = {}
        """Number -> queue and offset."""
        self._name_server, self._topic, self._a_second = name_server, topic, a_second
        self._is_over = False
        self._thread = threading.Thread(target=lambda: asyncio.run(self._send()), name="flow")

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._is_over = True
        self._thread.join()

    async def _send(self) -> None:
        under_way: set[asyncio.Task[None]] = set()
        async with Producer(name_servers=[self._name_server]) as producer:
            for number in count():
                if self._is_over:
                    break
                task = asyncio.get_running_loop().create_task(self._send_one(producer, number))
                under_way.add(task)
                task.add_done_callback(under_way.discard)
                await asyncio.sleep(1 / self._a_second)
            await asyncio.gather(*under_way)

    async def _send_one(self, producer: Producer, number: int) -> None:
        with contextlib.suppress(FrameworkError):  # what no broker took was not promised to anybody
            result = await producer.send(Message(self._topic, str(number).encode()))
            self.acknowledged[number] = str(result.queue), result.queue_offset
