"""FastStream on Kafka: a handler of a dict, or of lists of up to 1,000 dicts. As shipped, without log lines."""

from __future__ import annotations

import asyncio
import sys

from counted import ADDRESS, GROUP, TOPIC, Counted
from faststream import FastStream
from faststream.kafka import KafkaBroker

broker = KafkaBroker(ADDRESS, logger=None)
app = FastStream(broker, logger=None)
counted = Counted()

if sys.argv[1] == "batch":

    @broker.subscriber(TOPIC, group_id=GROUP, auto_offset_reset="earliest", batch=True, max_records=1_000)
    async def handle_all(body: list[dict]) -> None:  # type: ignore[type-arg]  # as FastStream's pages have it
        counted.took(len(body))

else:

    @broker.subscriber(TOPIC, group_id=GROUP, auto_offset_reset="earliest")
    async def handle(body: dict) -> None:  # type: ignore[type-arg]
        counted.took()


asyncio.run(app.run())
