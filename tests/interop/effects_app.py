"""An application whose handler leaves an effect behind: a line of one length, written when its work is done.

Who reads the file can count by its size, and what the handler wrote is there however the process ends.
"""

from __future__ import annotations

import asyncio
import os
import time

from framework import Message, consumer

FILE = os.open(os.environ["EFFECTS_FILE"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
PAUSE_S = float(os.environ["EFFECTS_PAUSE_S"])


@consumer(topic=os.environ["RECORD_TOPIC"], group=os.environ["RECORD_GROUP"])
async def leave_an_effect(message: Message) -> None:
    await asyncio.sleep(PAUSE_S)
    os.write(FILE, b"%3d %9d %18.6f\n" % (message.queue.number, message.queue_offset, time.time()))
