"""aiokafka by itself: `getmany` of up to 1,000 records, or one message after the other. A timer commits offsets."""

from __future__ import annotations

import asyncio
import sys

from aiokafka import AIOKafkaConsumer
from counted import ADDRESS, GROUP, TOPIC, Counted


async def main(way: str) -> None:
    counted = Counted()
    consumer = AIOKafkaConsumer(TOPIC, bootstrap_servers=ADDRESS, group_id=GROUP, auto_offset_reset="earliest")
    await consumer.start()
    try:
        if way == "each":
            async for _ in consumer:
                counted.took()
        while True:
            found = await consumer.getmany(timeout_ms=1_000, max_records=1_000)
            if number := sum(map(len, found.values())):
                counted.took(number)
    finally:
        await consumer.stop()


asyncio.run(main(sys.argv[1]))
