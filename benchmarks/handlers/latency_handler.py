"""An application that notes how long after its sending each message came; `LatencyBench.java` does the same.

A body begins with the message's number and the nanosecond of the monotonic clock at which its frame was written. Below
0 it is a probe, which says that this queue is being consumed.
"""

from __future__ import annotations

import os
import time
from array import array
from pathlib import Path

from framework import Message, consumer

FILE = Path(os.environ["BENCHMARK_REPORT"])
COUNT = int(os.environ["BENCHMARK_COUNT"])
taken = array("q", bytes(8 * COUNT))
left = [COUNT]


@consumer(os.environ["BENCHMARK_TOPIC"], os.environ["BENCHMARK_GROUP"])
async def note(message: Message) -> None:
    now = time.monotonic_ns()
    number = int(message.body[:11])
    if number < 0:
        print("here", -number, flush=True)
        return
    taken[number] = now - int(message.body[12:32])
    left[0] -= 1
    if not left[0]:
        made = FILE.with_suffix(".made")
        made.write_bytes(taken.tobytes())
        made.rename(FILE)
