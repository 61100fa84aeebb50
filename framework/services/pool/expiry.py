"""Expiry: stops handlers that exceed their group's timeout, and lets a policy decide about their messages.

The timeout counts from the handler's start. One timer per group fires when the first running handler may be over its
limit; nothing is done per message. Async handlers are cancelled, threads run on; in both cases another worker takes
over, and the late result changes nothing. `core/expiry.py` says which slots are over the limit, `core/retry.py` what a
policy's answer means.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import structlog

from framework import marks
from framework.core import limits
from framework.core.expiry import Member, RunningHandler, Slot, due
from framework.core.results import Result
from framework.hooks.listeners import NO_LISTENERS, Listeners
from framework.model.contracts import ExpiryPolicy
from framework.model.delivery import Delivery
from framework.model.durations import to_ms
from framework.model.outcome import Extend, Outcome, RetryLater
from framework.model.queue import MessageQueue
from framework.net.wakeup import Wakeup
from framework.ports import Clock
from framework.services.recurring import Recurring

log = structlog.get_logger()

QUIET_SECONDS = 10.0  # a whole pool that expires message by message shall not fill the disk with saying so
SHORT_LOOK_SECONDS = 1.0  # how soon it is noticed that handlers have ended at last
CARRIED_OUT_A_TURN = 100  # so that a turn of the loop stays one of milliseconds
GRAIN_SECONDS = limits.EXPIRY_GRAIN_MS / 1000


class WatchedPool(Protocol):
    """A pool, as far as its slots are watched."""

    @property
    def slots(self) -> Iterable[Slot]: ...
    @property
    def fenced(self) -> Iterable[Slot]: ...
    @property
    def missing(self) -> int: ...
    def fence(self, slot: Slot) -> None: ...


class Expiry:
    """One per group that is not orderly."""

    def __init__(
        self,
        group: str,
        pools: Sequence[WatchedPool],
        clock: Clock,
        policy: ExpiryPolicy,
        timeout_ms: int | None,
        looked: Callable[[], None] = lambda: None,
        listeners: Listeners = NO_LISTENERS,
        lines: Recurring | None = None,
    ) -> None:
        self._group, self._pools, self._clock = group, pools, clock
        self._policy, self._timeout_ms, self._looked = policy, timeout_ms, looked
        self._stuck, self._lines = listeners.delivery_stuck, lines or Recurring(clock)
        self._bell = Wakeup()
        self._unnamed, self._name_at = 0, 0.0
        self._decided: deque[tuple[dict[Member, Outcome], float]] = deque()
        """What is still to be carried out: of handlers that were given up, and when these had started."""

    def adopt(self, policy: ExpiryPolicy, timeout_ms: int | None) -> None:
        """Another limit, or another policy: from now on, and for handlers that run already."""
        if (policy, timeout_ms) != (self._policy, self._timeout_ms):
            self._policy, self._timeout_ms = policy, timeout_ms
            self._bell.ring()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            again = self.look()
            self._looked()
            if any(pool.missing for pool in self._pools):
                again = min(again or math.inf, self._clock.monotonic() + SHORT_LOOK_SECONDS)
            try:
                await asyncio.sleep(0)  # first they hear of it
                await marks.stretched("an expiry is decided")
            except asyncio.CancelledError:
                self._carry_out(len(self._decided))
                raise
            if again is None or again > self._clock.monotonic():  # else others are over their limit by now
                self._carry_out(CARRIED_OUT_A_TURN)
                if self._decided:
                    continue
            await self._bell.wait(again)

    def look(self) -> float | None:
        """Give up whoever is over the limit; when to look again. Whoever starts after this look is over it later."""
        limit = self._limit
        if limit is None:
            return None
        now = self._clock.monotonic()
        earliest, expired = now + limit, []
        for pool in self._pools:
            for slot in (*pool.slots, *pool.fenced):
                at = due(slot, limit)
                if at is not None and at <= now:
                    if self._expire(pool, slot, now):
                        expired.append(slot)
                    at = due(slot, limit)
                if at is not None:
                    earliest = min(earliest, at)
        if expired:
            self._name(expired, limit)
        return earliest + GRAIN_SECONDS

    def intervene(self, queue: MessageQueue, offset: int, answer: Extend | Outcome) -> str:
        """What an operator decides about the handler that runs with this message, before its time is over or after.

        The handler of a batch is one: what is decided is decided for all that is left of it. Comes back with why
        nothing was done; empty where it was.
        """
        now = self._clock.monotonic()
        for pool in self._pools:
            for slot in pool.slots:
                waiting = [(chunk, index) for chunk, index in slot.running if not chunk.has_ended(index)]
                if not any(_is_at(member, queue, offset) for member in waiting):
                    continue
                if isinstance(answer, Extend):
                    if self._limit is None:
                        return "the group has no timeout, so nothing ends this handler"
                    by = self._limit if answer.by is None else to_ms(answer.by) / 1000
                    slot.extended = (slot.running[0], now + by)
                else:
                    self._give_up(pool, slot, dict.fromkeys(waiting, answer))
                self._bell.ring()
                return ""
        return "no handler runs with this message any more"

    @property
    def _limit(self) -> float | None:
        return None if self._timeout_ms is None else self._timeout_ms / 1000

    def _expire(self, pool: WatchedPool, slot: Slot, now: float) -> bool:
        """Put what the slot is at to the policy; whether its handler was given up."""
        waiting = [(chunk, index) for chunk, index in slot.running if not chunk.has_ended(index)]
        decided: dict[Member, Outcome] = {}
        if self._stuck is not None and waiting and slot.stuck != slot.running[0]:
            slot.stuck = slot.running[0]
            for member in waiting:
                self._stuck(self._delivery(slot, member), int((now - slot.started) * 1000))
        for member in waiting:
            answer = self._asked(slot, member, now)
            if isinstance(answer, Extend):
                # The handlers of a batch are one: more time for one message is more time for all.
                by = self._limit if answer.by is None else to_ms(answer.by) / 1000
                slot.extended = (slot.running[0], now + (by or 0))
                self._lines.say(
                    "warning", "handler extended", (slot.running[0][0].run.queue.topic,), **self._where(slot, now)
                )
                return False
            decided[member] = answer
        if not decided:
            return False
        marks.sometimes("a handler expired")
        self._give_up(pool, slot, decided)
        return True

    def _give_up(self, pool: WatchedPool, slot: Slot, decided: dict[Member, Outcome]) -> None:
        slot.verdicts = {**(slot.verdicts or {}), **decided}
        started = slot.started
        pool.fence(slot)
        self._decided.append((decided, started))

    def _carry_out(self, most: int) -> None:
        """Do what was decided. It takes longer than deciding, so it comes after all that are over their limit together
        were given up; until then these messages have not ended, and whoever took their queue would be given them.
        """
        for _ in range(min(most, len(self._decided))):
            decided, started = self._decided.popleft()
            for (chunk, index), outcome in decided.items():
                if not chunk.window.is_closed:
                    chunk.run.not_success(chunk, index, Result(outcome, "timed_out"), started)
                chunk.run.left(chunk, 0)

    def _asked(self, slot: Slot, member: Member, now: float) -> Extend | Outcome:
        if member[0].window.is_closed:
            return RetryLater(reason="its queue is another member's")  # which is given the message without us
        return self._policy.decide(self._delivery(slot, member), int((now - slot.started) * 1000))

    def _delivery(self, slot: Slot, member: Member) -> Delivery:
        chunk, index = member
        running = RunningHandler(slot, member, self._clock.monotonic)
        return Delivery(self._group, chunk.messages[index], slot.started, running, chunk.window.epoch)

    def _name(self, expired: list[Slot], limit: float) -> None:
        """One line for many: those that expired since the last line, and where the first of them was."""
        self._unnamed += len(expired)
        now = self._clock.monotonic()
        for slot in expired:
            log.debug("handler timed out", **self._where(slot, now))
        if now >= self._name_at:
            log.warning(
                "handlers timed out",
                count=self._unnamed, limit_ms=round(limit * 1000), policy=self._policy.name,
                **self._where(expired[0], now),
            )  # fmt: skip
            self._unnamed, self._name_at = 0, now + QUIET_SECONDS

    def _where(self, slot: Slot, now: float) -> dict[str, Any]:
        (chunk, index), *_ = slot.running
        queue = chunk.run.queue
        place: dict[str, object] = {
            "group": self._group,
            "queue": str(queue),
            "ran_ms": round((now - slot.started) * 1000),
        }
        if index < len(chunk.messages):
            place["offset"] = chunk.messages[index].queue_offset
        return place

    def __repr__(self) -> str:
        return f"<Expiry {self._group} after {self._timeout_ms} ms: {self._policy.name}>"


def _is_at(member: Member, queue: MessageQueue, offset: int) -> bool:
    chunk, index = member
    return chunk.run.queue == queue and chunk.messages[index].queue_offset == offset
