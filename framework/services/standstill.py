"""Standstill: logs a queue that has stopped although messages wait in it, and restarts its loop.

Every known reason to wait is logged where it arises. This looks for the others, from outside: a queue of ours in which
for a minute nothing was pulled and nothing was done, while its broker has more than we have handled. It asks nothing of
a queue that makes progress, and asks the broker for its end only if no pull was made for that minute.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol
from weakref import WeakKeyDictionary

import structlog

from framework import marks
from framework.core import limits
from framework.core.queue_flow import QueueState
from framework.errors import FrameworkError
from framework.model.queue import MessageQueue
from framework.ports import Clock
from framework.services.queue.pull import PullLoop

log = structlog.get_logger()

LOOK_SECONDS = 10.0


class Watched(Protocol):
    """A group, as this looks at it."""

    @property
    def owned(self) -> dict[MessageQueue, PullLoop]: ...
    def blocked_because(self, pull: PullLoop) -> str | None:
        """What a message of this queue waits for, which is reported by another."""
        ...

    def start_anew(self, pull: PullLoop) -> None: ...


class AsksEnds(Protocol):
    async def max_offset(self, queue: MessageQueue) -> int: ...


@dataclass(slots=True)
class _Seen:
    """Where a queue was when it last got on."""

    place: tuple[int, int]
    at: float
    quiet_at: float = 0.0
    """When it was last known that nothing waits."""
    is_named: bool = False


class Standstill:
    """One an application."""

    def __init__(self, groups: Callable[[], Iterable[tuple[str, Watched]]], brokers: AsksEnds, clock: Clock) -> None:
        self._groups, self._brokers, self._clock = groups, brokers, clock
        # A loop that is lost goes at once, with the messages that it had: the next look may be far away.
        self._seen: WeakKeyDictionary[PullLoop, _Seen] = WeakKeyDictionary()
        self._most_s = marks.limit("standstill", limits.STANDSTILL_MS) / 1000

    @property
    def named(self) -> list[str]:
        """Queues that stand still now."""
        return [str(pull.queue) for pull, seen in self._seen.items() if seen.is_named]

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await self._look_at_all()

    async def _look_at_all(self) -> None:
        for name, group in self._groups():
            for pull in list(group.owned.values()):
                await self._look(name, group, pull)
        alive = {pull for _, group in self._groups() for pull in group.owned.values()}
        for pull in list(self._seen):
            if pull not in alive:
                del self._seen[pull]

    async def _look(self, name: str, group: Watched, pull: PullLoop) -> None:
        flow, now = pull.flow, self._clock.monotonic()
        place = flow.window.committable, flow.next_offset
        seen = self._seen.get(pull)
        if seen is not None and seen.place == place and not seen.is_named and self._is_idle(pull, now):
            seen.quiet_at = now
            return  # as most of a thousand queues at most looks
        if seen is None or seen.place != place or _has_reason(group, pull, now):
            if seen is not None and seen.is_named and seen.place != place:
                log.info("queue recovered", group=name, queue=str(pull.queue), committable=place[0])
            self._seen[pull] = _Seen(place, now)
            return
        if now - max(seen.at, pull.left_at) < self._most_s:
            return
        lag = await self._lag(pull, place, now)
        if lag is None or group.owned.get(pull.queue) is not pull or flow.state is QueueState.RETIRING:
            return  # nobody can say, or the queue was lost while the broker was asked
        if not lag:
            seen.quiet_at = now
            return
        if not seen.is_named:
            seen.is_named = True
            log.error(
                "queue stalled",
                group=name, queue=str(pull.queue), state=flow.state.value, lag=lag,
                stalled_ms=round((now - max(seen.at, seen.quiet_at)) * 1000),
                pull_age_ms=round((now - pull.pulled_at) * 1000),
                reason=flow.failure or flow.held_because,
            )  # fmt: skip
        if now - pull.pulled_at >= self._most_s and flow.state is not QueueState.CLAIMED:
            group.start_anew(pull)

    def _is_idle(self, pull: PullLoop, now: float) -> bool:
        """Whether nothing waits, by what a pull of late said."""
        flow = pull.flow
        return 0 <= flow.max_offset <= flow.window.committable and now - pull.pulled_at < self._most_s

    async def _lag(self, pull: PullLoop, place: tuple[int, int], now: float) -> int | None:
        """How many messages wait, as far as anybody knows; None where the broker does not say."""
        end = pull.flow.max_offset
        if now - pull.pulled_at >= self._most_s:
            try:
                end = await self._brokers.max_offset(pull.queue)
            except FrameworkError:
                return None  # the broker is away, which is named where it is called
        return max(end - max(place[0], 0), 0)


def _has_reason(group: Watched, pull: PullLoop, now: float) -> bool:
    """Whether it stands on purpose, or something is at it: those are named elsewhere, or are no trouble.

    A failure is a reason until its next try is due: only a loop that tries no more stands still.
    """
    flow = pull.flow
    return (
        flow.is_paused
        or pull.waits_for_rate
        or now * 1000 < flow.health.until_ms
        or flow.state is QueueState.RETIRING
        or bool(pull.running)
        or group.blocked_because(pull) is not None
    )
