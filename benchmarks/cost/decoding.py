"""Decoding alone: the bytes of pulls to messages, and what is read of them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from benchmarks.cost.engine import BODY, PROPERTIES, TOPIC
from framework.model.message import Message
from framework.model.queue import MessageQueue
from framework.wire.stored import Record, decode, encode_record

PULL = 32
QUEUE = MessageQueue(TOPIC, "broker-a", 0)
PULLED = encode_record(Record(topic=TOPIC, body=BODY, properties=PROPERTIES, born_ms=1_700_000_000_000)) * PULL


async def decoded(messages: int, read: Callable[[Message], object] | None = None) -> None:
    for _ in range(messages // PULL):
        pulled = decode(PULLED, QUEUE)
        if read is not None:
            for message in pulled:
                read(message)


CASES: dict[str, Callable[[int], Coroutine[Any, Any, None]]] = {
    "decode": decoded,
    "decode-body": partial(decoded, read=lambda message: message.body),
    "decode-all": partial(decoded, read=lambda message: (message.body, message.tags, message.properties)),
}
