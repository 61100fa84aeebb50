"""What an orderly group watches: pauses that end, a process that was suspended, queues that a message blocks for long.

One timer each per group, however many lanes it has.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Iterable, Iterator
from itertools import count

import structlog

from framework.hooks.listeners import NO_LISTENERS, Listeners
from framework.model.delivery import Delivery
from framework.ports import Clock
from framework.services.orderly.desk import Desk, Lane
from framework.services.pool.run import AtWork

log = structlog.get_logger()

PULSE_SECONDS = 0.5
# A process that was stopped for longer than this looks around before it starts anything: the word that a connection is
# lost, and its leases with it, may lie unread beside the timers that would start the next handler.
STALL_MS = 2_000
LOOK_AROUND_MS = 50


class Alarms:
    """Lanes that wait for an instant."""

    def __init__(self, clock: Clock, over: Callable[[Lane], None]) -> None:
        self._clock, self._over = clock, over
        self._waiting: list[tuple[int, int, Lane]] = []
        self._ties = count()
        self._timer: asyncio.TimerHandle | None = None
        self._at_ms = 0

    def put(self, lane: Lane, at_ms: int) -> None:
        lane.wakes_ms = at_ms
        heapq.heappush(self._waiting, (at_ms, next(self._ties), lane))
        self._set()

    def _set(self) -> None:
        at_ms = self._waiting[0][0]
        if self._timer is not None:
            if self._at_ms <= at_ms:
                return
            self._timer.cancel()
        self._at_ms = at_ms
        self._timer = asyncio.get_running_loop().call_at((at_ms + 1) / 1000, self._ring)

    def _ring(self) -> None:
        self._timer = None
        now_ms, waiting = self._clock.monotonic_ms(), self._waiting
        while waiting and waiting[0][0] <= now_ms:
            at_ms, _, lane = heapq.heappop(waiting)
            if lane.wakes_ms == at_ms:  # else it was woken before, or waits for another instant by now
                lane.wakes_ms = 0
                self._over(lane)
        if waiting:
            self._set()

    def stop(self) -> None:
        """No lane is left that waits for anything."""
        self._waiting.clear()
        _cancel(self._timer)
        self._timer = None


class Pulse:
    """Notices that the process stood still. Its timer is there while there are queues."""

    def __init__(self, clock: Clock, is_needed: Callable[[], bool]) -> None:
        self._clock, self._is_needed = clock, is_needed
        self._timer: asyncio.TimerHandle | None = None
        self._seen_ms = 0
        """When the loop was last seen to run; kept while there are queues."""
        self._until_ms = 0

    def start(self) -> None:
        if self._timer is None:
            self._beat()

    def stop(self) -> None:
        """There are no queues any more."""
        _cancel(self._timer)
        self._timer = None

    def look_around(self, now_ms: int) -> int:
        """Until when nothing may start, because the process stood still until just now."""
        if now_ms - self._seen_ms > STALL_MS:
            self._until_ms = now_ms + LOOK_AROUND_MS
        self._seen_ms = now_ms
        return self._until_ms

    def _beat(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if self._timer is not None:
            self.look_around(now_ms)
        self._seen_ms = now_ms
        self._timer = asyncio.get_running_loop().call_later(PULSE_SECONDS, self._beat) if self._is_needed() else None


class StuckWatch:
    """Says once which message has blocked its line for too long."""

    def __init__(
        self,
        group: str,
        clock: Clock,
        stuck_after_ms: int,
        lanes: Callable[[], Iterator[Lane]],
        listeners: Listeners = NO_LISTENERS,
    ) -> None:
        self._group, self._clock, self._stuck_after_ms, self._lanes = group, clock, stuck_after_ms, lanes
        self._stuck = listeners.delivery_stuck
        self._timer: asyncio.TimerHandle | None = None

    def begun(self, lane: Lane, now_ms: int) -> None:
        """The lane's first message is started for the first time."""
        lane.line.since_ms = now_ms
        self._set(now_ms + self._stuck_after_ms)

    def stop(self) -> None:
        """No lane is left."""
        _cancel(self._timer)
        self._timer = None

    def _set(self, at_ms: int) -> None:
        """One timer a group. It is there while anything runs, and looks when the oldest could be over the limit."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_at((at_ms + 1) / 1000, self._look)

    def _look(self) -> None:
        self._timer = None
        now_ms = self._clock.monotonic_ms()
        waiting: list[int] = []
        for lane in self._lanes():
            line = lane.line
            if line.is_stuck(now_ms, self._stuck_after_ms) and not line.is_reported:
                self._report(lane, now_ms)
            if line.since_ms is not None and not line.is_reported:
                waiting.append(line.since_ms)
        if waiting:
            self._set(max(min(waiting) + self._stuck_after_ms, now_ms))

    def _report(self, lane: Lane, now_ms: int) -> None:
        line = lane.line
        if line.first is None or line.since_ms is None:
            return
        line.is_reported = True
        message = line.message
        named = {"key": line.key} if lane.desk.lanes.is_by_key else {}
        log.error(
            "queue stuck",
            group=self._group, queue=str(lane.desk.pull.queue), offset=message.queue_offset,
            message_id=message.message_id, attempts=line.attempt, blocked_ms=now_ms - line.since_ms,
            reason=line.last_error or "its handler still runs", **named,
        )  # fmt: skip
        if self._stuck is not None:
            began, flow = line.since_ms / 1000, lane.desk.pull.flow
            self._stuck(Delivery(self._group, message, began, epoch=flow.window.epoch), now_ms - line.since_ms)


def retrying(lanes: Iterable[Lane]) -> int:
    """How many have a first message that has failed, and is tried again where it is."""
    return sum(lane.line.attempt > 0 or bool(lane.line.copies) for lane in lanes)


def lanes_at_work(lanes: Iterable[Lane]) -> list[AtWork]:
    """The handlers that run, for pictures."""
    found: list[AtWork] = []
    for lane in list(lanes):
        slot = lane.slot
        if lane.is_running and slot is not None:
            batch = [portion.messages[index] for portion, index in lane.line.take(slot.batch)] if slot.batch else []
            messages = batch or ([slot.message] if slot.message is not None else [])
            if messages:
                found.append(AtWork(lane.desk.pull.queue, messages, lane.started, slot.worker))
    return found


def why_full(desk: Desk) -> str | None:
    """Why nothing of a window that takes in no more can be started; None where that is not so."""
    if desk.busy or not desk.pull.flow.is_full:
        return None
    uncommitted = sum(line.uncommitted for line in desk.lanes) if desk.how.is_manual else 0
    if uncommitted:
        return f"{uncommitted} messages were handled and none is committed; the handler must return Commit()"
    return why_blocked(desk) if desk.lanes.is_by_key else None


def why_blocked(desk: Desk) -> str | None:
    """Which lines of the queue do not get on, and the first of them with its reason."""
    blocked = [line for line in desk.lanes if line.blocked_because is not None]
    if not blocked:
        return None
    if not desk.lanes.is_by_key:
        return blocked[0].blocked_because
    oldest = min(blocked, key=lambda line: line.since_ms or 0)
    return f"{len(blocked)} of {len(desk.lanes)} keys blocked, {oldest.key!r} the longest: {oldest.blocked_because}"


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
