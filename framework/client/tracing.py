"""Tracer: trace records on their way to the trace topic, many in one message.

Records come from any thread and wait here; what does not fit is dropped and counted, because no message may wait for
what is told about it. It knows nothing of what a record says.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

import structlog

from framework.errors import FrameworkError
from framework.model.message import KEY_SEPARATOR, Message
from framework.model.reserved import GROUP_LENGTH_MAX
from framework.net.wakeup import Wakeup

log = structlog.get_logger()

WAITING_MAX = 16_384
"""Records that may wait: some megabytes, and more than a second of what one process handles."""
SOON = 512
"""Records that are worth a message before the second is over."""
LINGER_SECONDS = 1.0
CLOSE_SECONDS = 5.0
SEND_TIMEOUT = "5s"
BODY_MAX = 128_000  # as Java's trace producer
KEYS_MAX = 16_000
"""Every record is found by its keys, and brokers refuse properties of more than 32,767 bytes."""

Send = Callable[[Message], Awaitable[object]]


def producer_group(group: str, kind: str) -> str:
    """Who sends trace messages, as the Java client names it."""
    return f"_INNER_TRACE_PRODUCER-{group}-{kind}"[:GROUP_LENGTH_MAX]


class Tracer:
    """One a consumer group or producer that is traced. `put` from anywhere; `run` on the loop."""

    def __init__(self, topic: str, call_soon: Callable[[Callable[[], None]], None]) -> None:
        self.topic = topic
        self.dropped = 0
        """Records lost: too many waited, or no broker took them. A count for people; threads may lose one of it."""
        self._call_soon = call_soon
        self._waiting: deque[tuple[str, str]] = deque()
        self._bell = Wakeup()
        self._ended = asyncio.Event()
        self._is_running = self._is_closing = self._is_failing = False

    def put(self, record: str, message_id: str, keys: str | None) -> None:
        """A record, found later by the message's id and by its keys."""
        waiting = self._waiting
        if len(waiting) >= WAITING_MAX:
            self.dropped += 1
            return
        found_by = f"{message_id}{KEY_SEPARATOR}{keys}" if keys else message_id
        waiting.append((record, found_by if len(found_by) <= KEYS_MAX else message_id))
        if len(waiting) == SOON:
            self._call_soon(self._bell.ring)

    async def run(self, send: Send) -> None:
        """Until `close`."""
        self._is_running = True
        loop = asyncio.get_running_loop()
        try:
            while True:
                is_last = self._is_closing
                await self._bell.wait(loop.time() + (0 if is_last else LINGER_SECONDS))
                while self._waiting:
                    await self._send(send)
                if is_last:
                    return
        finally:
            self._is_running = False
            self._ended.set()

    async def close(self) -> None:
        """Send what waits, if that is done soon."""
        self._is_closing = True
        self._bell.ring()
        if not self._waiting and not self._is_running:
            return  # what was told of a moment ago may wait for a loop that has not had its first turn
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._ended.wait()
        except TimeoutError:
            log.warning("trace records lost", topic=self.topic, records=len(self._waiting))

    async def _send(self, send: Send) -> None:
        waiting, records = self._waiting, []
        body_length = keys_length = 0
        keys: dict[str, None] = {}
        while waiting and body_length < BODY_MAX and keys_length + len(waiting[0][1]) <= KEYS_MAX:
            record, found_by = waiting.popleft()
            records.append(record)
            body_length += len(record)
            for key in found_by.split(KEY_SEPARATOR):
                if key and key not in keys:
                    keys[key] = None
                    keys_length += len(key) + 1
        try:
            await send(Message(self.topic, "".join(records), keys=keys))
        except FrameworkError as error:
            self.dropped += len(records)
            if not self._is_failing:
                log.warning("trace not sent", topic=self.topic, reason=str(error))
            self._is_failing = True
        else:
            if self._is_failing:
                log.info("trace recovered", topic=self.topic, dropped=self.dropped)
            self._is_failing = False

    def __repr__(self) -> str:
        return f"<Tracer {self.topic}: {len(self._waiting)} waiting, {self.dropped} dropped>"
