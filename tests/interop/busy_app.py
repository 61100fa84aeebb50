"""An application that writes down when each of its handlers began and ended: `+ QUEUE:OFFSET SECONDS`, then `-` and the
same. A kill cannot take a line back. One message, which the environment names, is at work until a file appears.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from framework import Message, consumer

FILE = os.open(os.environ["BUSY_FILE"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
PAUSE_S = float(os.environ["BUSY_PAUSE_S"])
STUCK, RELEASE = os.environ["BUSY_STUCK"], Path(os.environ["BUSY_RELEASE"])


@consumer(os.environ["RECORD_TOPIC"], os.environ["RECORD_GROUP"])
async def work(message: Message) -> None:
    place = f"{message.queue.number}:{message.queue_offset}"
    os.write(FILE, f"+ {place} {time.monotonic():.4f}\n".encode())
    await asyncio.sleep(PAUSE_S)
    while place == STUCK and not RELEASE.exists():  # noqa: ASYNC110, ASYNC240  # the test says so
        await asyncio.sleep(0.1)
    os.write(FILE, f"- {place} {time.monotonic():.4f}\n".encode())
