"""An application of three groups on one topic that writes down, a line each, which message each handler was given.

What it consumes stands in the environment; `audit.py` starts it. The clock is the machine's, the same for all.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from framework import Message, consumer

TOPIC = os.environ.get("RECORD_TOPIC", "audited")
RECORD = Path(os.environ.get("RECORD_FILE", os.devnull))
PAUSE_S = float(os.environ.get("RECORD_PAUSE_S", "0"))
FAILS = 20
"""One of so many messages fails in the group that retries, once."""


def fails(number: int, attempt: int) -> bool:
    return attempt == 1 and number % FAILS == 0


async def note(group: str, message: Message) -> None:
    place = f"{message.queue} {message.queue_offset} {message.body.decode()} {message.attempt}"
    write(f"{time.monotonic():.3f} {group} {place}\n")
    await asyncio.sleep(PAUSE_S)


def write(line: str) -> None:
    with RECORD.open("a") as record:
        record.write(line)


@consumer(TOPIC, f"parallel-{TOPIC}")
async def in_parallel(message: Message) -> None:
    await note("parallel", message)


@consumer(TOPIC, f"orderly-{TOPIC}", orderly=True)
async def in_order(message: Message) -> None:
    await note("orderly", message)


@consumer(TOPIC, f"retrying-{TOPIC}")
async def with_retries(message: Message) -> None:
    await note("retrying", message)
    if fails(int(message.body), message.attempt):
        raise ValueError("the first attempt fails, as it was told to")
