"""Once: drops duplicates of what one handler has handled lately.

A key is recorded only after success, so a retry is not a duplicate. Two messages of one key at the same time run one
after the other: whether the second is a duplicate is known when the first is done. Whatever the store does, no message
is lost: if it fails or is slow, the message is handled. It knows no queue and no offset.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from framework.core.results import result_of
from framework.errors import shorten
from framework.hooks.failures import plugin_failure, plugin_failure_awaited
from framework.model.contracts import RemembersKeys
from framework.model.delivery import Delivery
from framework.model.message import Message
from framework.model.outcome import Ack, Drop
from framework.ports import Clock

log = structlog.get_logger()

PATIENCE_SECONDS = 5.0  # for one call of a store; RocketMQ's own requests wait 3 s
SLOW_SECONDS = 1.0  # for one call; a message waits for two
QUIET_SECONDS = 60.0  # without a repeat, after which the next one is logged; also for a slow store

Handle = Callable[[Message, Delivery], Awaitable[object]]
KeyOf = Callable[[Message], object]


class Once:
    """One a topic of a group. It outlives a change of the group's subscriptions, and so do its counts."""

    def __init__(self, group: str, topic: str, store_name: str, store: RemembersKeys, clock: Clock) -> None:
        self._group, self._topic, self._store_name = group, topic, store_name
        self._store, self._clock = store, clock
        self._running: dict[str, asyncio.Event] = {}
        self._last_repeat = self._last_slow = float("-inf")
        self._is_failing = False
        self.dropped = 0
        """Repeats."""
        self.failures = 0
        """Failed calls of the store, or of the function that names the key."""

    async def around(self, delivery: Delivery, handle: Handle, key_of: KeyOf | None, keep_ms: int) -> object:
        """The handler's judged result, or a Drop where it has had the message already."""
        message = delivery.message
        key = self._key(message, key_of)
        if key is None:
            return await handle(message, delivery)
        while (before := self._running.get(key)) is not None:
            await before.wait()
        mine = self._running[key] = asyncio.Event()
        try:
            if await self._call_store(self._store.has, key):
                return self._repeat(message, key, keep_ms)
            value = await handle(message, delivery)
            if _is_success(value) and not delivery.is_expired:
                await self._call_store(self._store.record, key, keep_ms)
            return value
        finally:
            del self._running[key]
            mine.set()

    async def close(self) -> None:
        if self.dropped:
            log.info("duplicates counted", group=self._group, topic=self._topic, dropped=self.dropped)
        await self._call_store(self._store.close)

    def _key(self, message: Message, key_of: KeyOf | None) -> str | None:
        """With its topic: an order's number is another thing in another topic of the group."""
        if key_of is None:
            return f"{self._topic} {message.message_id}"
        try:
            key = key_of(message)
        except BaseException as error:  # noqa: BLE001 - border: the user's function
            plugin_failure(error)
            self._failed(f"its key function raised {type(error).__name__}: {shorten(str(error))}")
            return None
        return None if key is None else f"{self._topic} {key}"

    async def _call_store(self, function: Callable[..., Awaitable[object]], *arguments: object) -> object:
        began = self._clock.monotonic()
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                answer = await function(*arguments)
        except BaseException as error:  # noqa: BLE001 - border: a plugin's
            plugin_failure_awaited(error)
            reason = f"no answer in {PATIENCE_SECONDS:.0f} s" if isinstance(error, TimeoutError) else str(error)
            self._failed(f"{type(error).__name__}: {reason}")
            return None
        if self._is_failing:
            self._is_failing = False
            log.info("duplicate check recovered", group=self._group, topic=self._topic, store=self._store_name)
        if (took := self._clock.monotonic() - began) > SLOW_SECONDS:
            self._slow(took)
        return answer

    def _slow(self, took: float) -> None:
        now, before = self._clock.monotonic(), self._last_slow
        self._last_slow = now
        if now - before > QUIET_SECONDS:
            log.warning(
                "duplicate check slow",
                group=self._group, topic=self._topic, store=self._store_name, elapsed_ms=round(took * 1000),
            )  # fmt: skip

    def _failed(self, reason: str) -> None:
        self.failures += 1
        if not self._is_failing:
            self._is_failing = True
            log.warning(
                "duplicate check failed",
                group=self._group, topic=self._topic, store=self._store_name, reason=reason,
            )  # fmt: skip

    def _repeat(self, message: Message, key: str, keep_ms: int) -> Drop:
        now, before = self._clock.monotonic(), self._last_repeat
        self.dropped, self._last_repeat = self.dropped + 1, now
        if now - before > QUIET_SECONDS:
            log.info(
                "duplicates dropped",
                group=self._group, topic=self._topic, queue=str(message.queue), offset=message.queue_offset,
                message_id=message.message_id, dropped=self.dropped,
            )  # fmt: skip
        return Drop("once", f"{shorten(key)} was handled less than {keep_ms / 1000:g} s ago")

    def __repr__(self) -> str:
        return f"<Once {self._group} {self._topic}: {self.dropped} dropped, {self.failures} failures>"


def _is_success(value: object) -> bool:
    if value is None or isinstance(value, Exception):
        return value is None
    result = result_of(value)
    return result.kind == "success" and isinstance(result.outcome, Ack)
