"""Async handlers, one for each group, whose processes count in one file: for several workers and several groups.

A process takes its row with its first message: a worker is forked from one that has imported this already.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from benchmarks.cells import own_row
from framework import Message, consumer

TOPIC, GROUP = os.environ["BENCHMARK_TOPIC"], os.environ["BENCHMARK_GROUP"]
REPORT = Path(os.environ["BENCHMARK_REPORT"])
GROUPS = int(os.environ.get("BENCHMARK_GROUPS", "1"))


class Count:
    """What this process has handled."""

    handled = 0
    offsets = 0
    row = memoryview(bytearray(24)).cast("Q")


async def count(message: Message) -> None:
    if not Count.handled:
        Count.row = own_row(REPORT)
        Count.row[2] = time.monotonic_ns()
    Count.handled = Count.row[0] = Count.handled + 1
    Count.offsets = Count.row[1] = Count.offsets + message.queue_offset


for number in range(GROUPS):
    name = f"{GROUP}-{number}" if number else GROUP
    globals()[f"handle_{number}"] = consumer(topic=TOPIC, group=name)(count)  # a consumer is found by its name
