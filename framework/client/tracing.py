"""Tracer: trace records on their way to the trace topic, many in one message.

Records come from any thread and wait here; what does not fit is dropped and counted, because no message may wait for
what is told about it. SendTrace alone knows what a record says.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import structlog

from framework.errors import FrameworkError
from framework.model.message import DELAY_LEVEL, KEY_SEPARATOR, KEYS, TAGS, Message
from framework.model.namespaces import unwrap
from framework.model.reserved import GROUP_LENGTH_MAX
from framework.net.wakeup import Wakeup
from framework.ports import World
from framework.wire import trace
from framework.wire.command import RemotingCommand
from framework.wire.fields import from_fields
from framework.wire.properties import decode
from framework.wire.requests.send import SendAnswer

if TYPE_CHECKING:
    from framework.client.outgoing import Outgoing, SendResult

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


class SendTrace:
    """One a traced producer: tells of each message that a broker has stored, as RocketMQ's own producers do.

    Of a batch each message has a record of its own; Java's one record names them all, so that none is found by its id.
    """

    def __init__(self, group: str, topic: str, world: World, namespace: str = "") -> None:
        self._group, self._clock, self._namespace = unwrap(namespace, group), world.clock, namespace
        self.tracer = Tracer(topic, world.workers.call_soon)

    def stored(
        self, outgoing: Outgoing, results: list[SendResult], address: str, answer: RemotingCommand, began_ms: int
    ) -> None:
        """A broker has stored these; nothing is told where it wrote no region, or turned traces off."""
        header = from_fields(SendAnswer, answer.fields)
        if header.region is None or header.trace_on == "false":
            return
        cost_ms = max(self._clock.now_ms() - began_ms, 0) // len(results)
        kind = trace.DELAYED if DELAY_LEVEL in decode(outgoing.properties) else trace.NORMAL
        topic = unwrap(self._namespace, outgoing.topic)
        for message, result in zip(outgoing.messages, results, strict=True):
            tags, keys = message.properties.get(TAGS), message.properties.get(KEYS)
            record = trace.published(
                began_ms, header.region, self._group, topic, result.message_id, tags, keys, address,
                len(message.body), cost_ms, kind, result.offset_message_id, success=result.code == 0,
            )  # fmt: skip
            self.tracer.put(record, result.message_id, keys)
