"""Accumulator: messages that are sent at about the same time leave as one batch, and each caller has its own answer.

It owns what waits, per topic and, for order keys, per queue. A batch is one request: its messages are stored all
together or not at all. A queue with order keys has one batch under way at a time, so that none overtakes another.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from framework.client.outgoing import Outgoing, SendResult
from framework.errors import BrokerUnreachable, FrameworkError, RequestTimedOut
from framework.model.queue import MessageQueue
from framework.net.task_tree import TaskTree

BYTES_MAX = 32 * 1024  # holdSize of Java's ProduceAccumulator: a batch this large waits no longer

_Place: TypeAlias = tuple[str, MessageQueue | None]


@dataclass(frozen=True, slots=True, eq=False)
class BatchEntry:
    """One message that waits, or is under way."""

    outgoing: Outgoing
    lane: _Lane
    answer: asyncio.Future[SendResult]


class _Lane:
    """What waits for one place."""

    __slots__ = ("bytes", "is_busy", "timer", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[BatchEntry] = deque()
        self.bytes = 0
        self.timer: asyncio.TimerHandle | None = None
        self.is_busy = False
        """In order: a batch is under way."""


class Accumulator:
    """One a producer with `linger`. `join` makes batches of messages for one place, `deliver` sends one of them."""

    def __init__(
        self,
        linger_ms: int,
        join: Callable[[Sequence[Outgoing]], list[Outgoing]],
        deliver: Callable[[Outgoing], Awaitable[list[SendResult]]],
    ) -> None:
        self._linger, self._join, self._deliver = linger_ms / 1000, join, deliver
        self._lanes: dict[_Place, _Lane] = {}
        self._tree = TaskTree(on_error=lambda *_: None)  # each caller has been told

    def put(self, outgoing: Outgoing, queue: MessageQueue | None) -> BatchEntry:
        """Have it leave with the next batch for its topic, and its queue if it has one. BrokerUnreachable if `close`
        was called, as while the caller waited for a route.
        """
        if self._tree.is_closed:
            raise _not_sent(outgoing.topic)
        place = outgoing.topic, queue
        lane = self._lanes.get(place)
        if lane is None:
            lane = self._lanes[place] = _Lane()
        loop = asyncio.get_running_loop()
        entry = BatchEntry(outgoing, lane, loop.create_future())
        lane.waiting.append(entry)
        lane.bytes += _size_of(outgoing)
        if lane.bytes >= BYTES_MAX:
            self._go(place, lane)
        elif lane.timer is None:
            lane.timer = loop.call_later(self._linger, self._go, place, lane)
        return entry

    async def answer(self, entry: BatchEntry, until: float, timeout_ms: int) -> SendResult:
        """Stored, in whichever batch. Cancelled or out of time while it waits for its batch, it is not sent.

        A timer costs a fourth of what `asyncio.timeout_at` costs.
        """
        timer = asyncio.get_running_loop().call_at(until, _fail_late, entry, timeout_ms)
        try:
            return await entry.answer
        except BaseException:
            if entry in entry.lane.waiting:
                entry.lane.waiting.remove(entry)
                entry.lane.bytes -= _size_of(entry.outgoing)
            raise
        finally:
            timer.cancel()

    def _go(self, place: _Place, lane: _Lane) -> None:
        """Send what waits, unless a batch before it is still under way: then it follows that one."""
        if lane.timer is not None:
            lane.timer.cancel()
            lane.timer = None
        if lane.is_busy:
            return
        entries, lane.waiting, lane.bytes = list(lane.waiting), deque(), 0
        if not entries:
            self._lanes.pop(place, None)
            return
        lane.is_busy = place[1] is not None
        self._tree.start(self._send(place, lane, entries), name=f"batch to {place[0]}")

    async def _send(self, place: _Place, lane: _Lane, entries: list[BatchEntry]) -> None:
        try:
            await self._send_parts(entries)
        finally:
            lane.is_busy = False
            for entry in entries:  # cancelled, since the producer stops: nobody may wait for ever
                _fail(entry, BrokerUnreachable(f"send to {place[0]}: the producer was stopped; it may be stored"))
            if place[1] is not None and lane.timer is None:
                self._go(place, lane)

    async def _send_parts(self, entries: list[BatchEntry]) -> None:
        try:
            parts = self._join([entry.outgoing for entry in entries])
        except FrameworkError as error:
            for entry in entries:
                _fail(entry, error)
            return
        begin = 0
        for part in parts:
            mine = entries[begin : begin + len(part.message_ids)]
            begin += len(mine)
            try:
                results = await self._deliver(part)
            except FrameworkError as error:
                for entry in mine:
                    _fail(entry, error)
            else:
                for entry, result in zip(mine, results, strict=True):
                    if not entry.answer.done():
                        entry.answer.set_result(result)

    async def close(self) -> None:
        """Nothing waits any more: what is under way is given up, and callers that wait are told."""
        lanes, self._lanes = self._lanes, {}
        for (topic, _), lane in lanes.items():
            if lane.timer is not None:
                lane.timer.cancel()
            waiting, lane.waiting = lane.waiting, deque()
            for entry in waiting:
                _fail(entry, _not_sent(topic))
        await self._tree.close()


def _size_of(outgoing: Outgoing) -> int:
    return len(outgoing.messages[0].body) + len(outgoing.properties) + 22  # what a batch writes around them


def timed_out(outgoing: Outgoing, timeout_ms: int) -> RequestTimedOut:
    return RequestTimedOut(f"send to {outgoing.topic}: not stored within {timeout_ms} ms")


def _fail_late(entry: BatchEntry, timeout_ms: int) -> None:
    _fail(entry, timed_out(entry.outgoing, timeout_ms))


def _not_sent(topic: str) -> BrokerUnreachable:
    return BrokerUnreachable(f"send to {topic}: the producer was stopped; it was not sent")


def _fail(entry: BatchEntry, error: FrameworkError) -> None:
    if not entry.answer.done():
        entry.answer.set_exception(error)
        entry.answer.exception()  # looked at: its caller may have gone
