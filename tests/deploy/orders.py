"""What tests put in the place of `deploy/app/orders.py`: each message leaves a line when it begins and when it is done.

Who reads the lines knows which messages came twice and which never did, however the process ended.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from framework import Message, consumer

FOLDER = Path(os.environ["TMPDIR"])
LINES = os.open(FOLDER / "lines", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
PAUSE_S = float(os.environ.get("PAUSE_S", "0.01"))


@consumer(os.environ.get("TOPIC", "orders"), os.environ.get("GROUP", "billing"))
async def bill(message: Message) -> None:
    place = f"{message.queue.broker}:{message.queue.number}:{message.queue_offset}"
    os.write(LINES, f"began {place}\n".encode())
    if message.body == b"wait":
        while not (FOLDER / "go").exists():  # noqa: ASYNC110 - a file is the only bell between processes
            await asyncio.sleep(0.02)
    await asyncio.sleep(PAUSE_S)
    os.write(LINES, f"done {place}\n".encode())
