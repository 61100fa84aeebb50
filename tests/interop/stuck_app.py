"""An application in which message `1` is at work until a file appears; the others end at once."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from framework import Message, consumer
from tests.interop.recording_app import note, seen_of

RELEASE = Path(os.environ["STUCK_RELEASE"])


@consumer(os.environ["RECORD_TOPIC"], os.environ["RECORD_GROUP"])
async def work(message: Message) -> None:
    note(seen_of(message))
    while message.body == b"1" and not RELEASE.exists():  # noqa: ASYNC110, ASYNC240  # the test says so
        await asyncio.sleep(0.1)
