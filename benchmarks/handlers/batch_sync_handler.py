"""The same with a plain handler, which runs on many threads at once; what they share they lock, once a batch."""

from __future__ import annotations

import threading

from benchmarks.handlers.counting import declared, tally
from framework import Message

lock = threading.Lock()


def count(messages: list[Message]) -> None:
    offsets = sum([message.queue_offset for message in messages])
    with lock:
        tally.offsets += offsets
        tally.several(len(messages))


handle = declared(count, at_the_end=lambda: None, batch=32)
