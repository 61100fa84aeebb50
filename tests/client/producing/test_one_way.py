"""One-way sends: nobody waits for them, so they leave together, and still each one leaves."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable

import pytest

from framework import Producer
from framework.errors import RequestTimedOut
from framework.net.frame_writer import GATHERED_MAX
from framework.reading import Reader, ReaderSettings
from framework.reading.columns import Columns
from tests.patience import wait_until
from tests.reading.threads import ThreadBox, thread_box

COUNT = 10 * GATHERED_MAX + 3


def test_all_of_them_arrive_in_the_order_of_each_queue_and_evenly() -> None:
    with thread_box() as box:
        asyncio.run(_send(box))
        with Reader(ReaderSettings((box.address,))) as reader:
            # The broker has the bytes; nobody says when it has stored them.
            wait_until(lambda: COUNT <= sum(map(reader.max_offset, reader.queues("orders"))), "every message")
            bodies = {
                queue.number: _numbers(reader.read(queue, 0, reader.max_offset(queue)))
                for queue in reader.queues("orders")
            }

    assert list(range(COUNT)) == sorted(number for each in bodies.values() for number in each)
    assert all(each == sorted(each) for each in bodies.values())
    assert max(Counter({queue: len(each) for queue, each in bodies.items()}).values()) <= COUNT // len(bodies) + 2


def _numbers(chunks: Iterable[Columns]) -> list[int]:
    return [int(body or b"") for chunk in chunks for body in chunk.bodies]


async def _send(box: ThreadBox) -> None:
    """Without a turn of the loop between them; closed at once, which sends what was collected."""
    async with Producer(name_servers=[box.address]) as producer:
        for number in range(COUNT):
            await producer.send_one_way("orders", str(number))


def test_a_broker_that_takes_in_no_bytes_is_waited_for_and_said() -> None:
    with thread_box() as box, pytest.raises(RequestTimedOut, match=r"took in no bytes|not written within"):
        asyncio.run(_to_a_deaf_one(box))


async def _to_a_deaf_one(box: ThreadBox) -> None:
    async with Producer(name_servers=[box.address]) as producer:
        await producer.send("orders", "first")
        channel = producer.cluster.pool.ready_channel(next(iter(box.broker.brokers.values())))
        assert channel is not None
        channel.pause_writing()
        try:
            await producer.send_one_way("orders", "second", timeout=0.05)
        finally:
            channel.resume_writing()
