"""An application in which one message is at work until a file appears; the others end at once."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from framework import Message, consumer
from tests.interop.recording_app import ORDERLY, note, seen_of

RELEASE, STUCK = Path(os.environ["STUCK_RELEASE"]), os.environ["STUCK_BODY"].encode()


@consumer(os.environ["RECORD_TOPIC"], os.environ["RECORD_GROUP"], orderly=ORDERLY)
async def work(message: Message) -> None:
    note(seen_of(message))
    while message.body == STUCK and not RELEASE.exists():  # noqa: ASYNC110, ASYNC240  # the test says so
        await asyncio.sleep(0.1)
