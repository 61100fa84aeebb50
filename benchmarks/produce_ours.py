"""Our side of `benchmarks.produce`: sends so many messages in one way, says when it began and ended, and goes."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable

from framework import Message, Producer

BATCH = 100
LINGER = "10ms"


async def _one_by_one(count: int, send: Callable[[], Awaitable[object]]) -> None:
    for _ in range(count):
        await send()


async def _at_once(count: int, in_flight: int, send: Callable[[], Awaitable[object]]) -> None:
    """So many tasks, each with its share."""
    share, more = divmod(count, in_flight)
    await asyncio.gather(*(_one_by_one(share + (number < more), send) for number in range(in_flight)))


async def _main(name_server: str, topic: str, mode: str, messages: int, body_bytes: int, in_flight: int) -> None:
    body, linger = b"x" * body_bytes, LINGER if mode == "accumulated" else 0
    async with Producer(name_servers=name_server, group="benchmark", linger=linger) as producer:

        async def send_all(count: int) -> None:
            if mode == "batch":
                batch = [Message(topic, body) for _ in range(BATCH)]
                await _one_by_one(count // BATCH, lambda: producer.send_batch(batch))
            elif mode == "single":
                await _one_by_one(count, lambda: producer.send(topic, body))
            elif mode == "one-way":
                await _one_by_one(count, lambda: producer.send_one_way(topic, body))
            else:
                await _at_once(count, in_flight, lambda: producer.send(topic, body))

        warm = messages // 10 // BATCH * BATCH
        await send_all(warm)
        first_ns = time.monotonic_ns()
        await send_all(messages)
        last_ns = time.monotonic_ns()
        print(json.dumps({"sent": warm + messages, "first_ns": first_ns, "last_ns": last_ns}), flush=True)
        await asyncio.sleep(1)  # the last of the one-way ones leave, and we are looked at


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:4], *map(int, sys.argv[4:7])))  # type: ignore[arg-type]  # three texts, three numbers
