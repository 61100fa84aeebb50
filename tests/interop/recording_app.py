"""An application that writes down what its handler was given, one line of JSON a message.

What it consumes and how it behaves stands in the environment; `application.py` starts it.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
from pathlib import Path
from typing import Any

from framework import Message, consumer

RECORD = Path(os.environ["RECORD_FILE"])
PAUSE_S = float(os.environ["RECORD_PAUSE_S"])
FAILURES = int(os.environ["RECORD_FAILURES"])
FILTER: dict[str, Any] = (
    {"sql": os.environ["RECORD_SQL"]} if "RECORD_SQL" in os.environ else {"tags": os.environ["RECORD_TAGS"]}
)
ORDERLY = os.environ["RECORD_ORDERLY"] == "yes"


def note(line: str) -> None:
    with RECORD.open("a") as lines:
        lines.write(f"{line}\n")


def seen_of(message: Message, **more: str) -> str:
    seen = {
        "topic": message.topic,
        "body": base64.b64encode(message.body).decode(),
        "message_id": message.message_id,
        "offset_message_id": message.offset_message_id,
        "broker": message.queue.broker,
        "queue": message.queue.number,
        "offset": message.queue_offset,
        "attempt": message.attempt,
        "properties": {**message.properties, **more},
    }
    return json.dumps(seen)


@consumer(
    topic=os.environ["RECORD_TOPIC"],
    group=os.environ["RECORD_GROUP"],
    orderly=ORDERLY,
    **FILTER,
)
async def record(message: Message) -> None:
    if PAUSE_S:
        await asyncio.sleep(PAUSE_S)
    note(seen_of(message))
    if message.attempt <= FAILURES and not message.body.startswith(b"fine"):
        raise ValueError(f"attempt {message.attempt} fails, as it was told to")
