"""An application that keeps an order in the way that the environment names, and writes down what it was given."""

from __future__ import annotations

import asyncio
import os
import time

from framework import BatchFailed, Commit, Message, Rollback, consumer
from tests.interop.recording_app import note, seen_of

HOW = os.environ["ORDERLY_HOW"]
TOPIC, GROUP = os.environ["RECORD_TOPIC"], os.environ["RECORD_GROUP"]


def shelf(message: Message) -> str:
    """The second word of `queue number`, modulo three."""
    return str(int(message.body.split()[1]) % 3)


if HOW == "keys":

    @consumer(TOPIC, GROUP, orderly="key", key=shelf)
    async def count(message: Message) -> None:
        """The fourth message of each queue fails twice; its shelf waits, the others go on."""
        await asyncio.sleep(0.01)
        note(seen_of(message))
        if message.body.endswith(b" 4") and message.attempt < 3:
            raise ValueError("miscounted")

elif HOW == "batches":

    @consumer(TOPIC, GROUP, orderly=True, batch=10, linger="2s")
    async def load(messages: list[Message]) -> int | None:
        """A batch that begins with the queue answers that all is well up to its fourth message."""
        for message in messages:
            note(seen_of(message, batch=str(messages[0].queue_offset), of=str(len(messages))))
        return 3 if messages[0].queue_offset == 0 else None

elif HOW == "failing batches":

    @consumer(TOPIC, GROUP, orderly=True, batch=10, linger="2s")
    async def unload(messages: list[Message]) -> None:
        """A batch that begins with the queue fails, and says that its fifth message is the first one that did."""
        for message in messages:
            note(seen_of(message, batch=str(messages[0].queue_offset), of=str(len(messages))))
        if messages[0].queue_offset == 0:
            raise BatchFailed("the fifth is broken", at=4)

elif HOW == "clock":

    @consumer(TOPIC, GROUP, orderly=True)
    async def stamp(message: Message) -> None:
        """Notes when it began; the clock is the machine's, and the same for all processes."""
        note(seen_of(message, at=str(time.monotonic())))
        await asyncio.sleep(0.1)

elif HOW == "commits":

    @consumer(TOPIC, GROUP, orderly=True, commit="manual")
    def book(message: Message) -> Commit | Rollback | None:
        """A commit at each fifth message; number 7 rolls back once, and what is numbered 10 and above stays open."""
        note(seen_of(message))
        number = int(message.body.split()[1])
        if number == 7 and not rolled_back(message):
            return Rollback("100ms")
        return Commit() if number % 5 == 4 and number < 10 else None


_rolled: set[int] = set()


def rolled_back(message: Message) -> bool:
    """Whether this queue was rolled back before; notes that it is now."""
    is_again = message.queue.number in _rolled
    _rolled.add(message.queue.number)
    return is_again
