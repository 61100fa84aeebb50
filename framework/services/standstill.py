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
    is_named: bool = False


class Standstill:
    """One an application."""

    def __init__(self, groups: Callable[[], Iterable[tuple[str, Watched]]], brokers: AsksEnds, clock: Clock) -> None:
        self._groups, self._brokers, self._clock = groups, brokers, clock
        self._seen: dict[PullLoop, _Seen] = {}
        self._most_s = marks.limit("standstill", limits.STANDSTILL_MS) / 1000

    @property
    def named(self) -> int:
        """Queues that stand still now."""
        return sum(seen.is_named for seen in self._seen.values())

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            for name, group in self._groups():
                for pull in list(group.owned.values()):
                    await self._look(name, group, pull)
            alive = {pull for _, group in self._groups() for pull in group.owned.values()}
            self._seen = {pull: seen for pull, seen in self._seen.items() if pull in alive}

    async def _look(self, name: str, group: Watched, pull: PullLoop) -> None:
        flow, now = pull.flow, self._clock.monotonic()
        place = flow.window.committable, flow.next_offset
        seen = self._seen.get(pull)
        if seen is None or seen.place != place or _has_reason(group, pull):
            if seen is not None and seen.is_named and seen.place != place:
                log.info("queue recovered", group=name, queue=str(pull.queue), committable=place[0])
            self._seen[pull] = _Seen(place, now)
            return
        if now - max(seen.at, pull.left_at) < self._most_s:
            return
        lag = await self._lag(pull, place, now)
        if not lag or group.owned.get(pull.queue) is not pull or flow.state is QueueState.RETIRING:
            return  # nothing waits, or the queue was lost while the broker was asked
        if not seen.is_named:
            seen.is_named = True
            log.error(
                "queue stalled",
                group=name, queue=str(pull.queue), state=flow.state.value, lag=lag,
                stalled_ms=round((now - seen.at) * 1000), pull_age_ms=round((now - pull.pulled_at) * 1000),
                reason=flow.failure or flow.held_because,
            )  # fmt: skip
        if now - pull.pulled_at >= self._most_s and flow.state is not QueueState.CLAIMED:
            group.start_anew(pull)

    async def _lag(self, pull: PullLoop, place: tuple[int, int], now: float) -> int:
        """How many messages wait, as far as anybody knows; 0 where the broker does not say."""
        end = pull.flow.max_offset
        if now - pull.pulled_at >= self._most_s:
            try:
                end = await self._brokers.max_offset(pull.queue)
            except FrameworkError:
                return 0  # the broker is away, which is named where it is called
        return max(end - max(place[0], 0), 0)


def _has_reason(group: Watched, pull: PullLoop) -> bool:
    """Whether it stands on purpose, or something is at it: those are named elsewhere, or are no trouble."""
    flow = pull.flow
    return (
        flow.is_paused
        or pull.waits_for_rate
        or flow.state is QueueState.RETIRING
        or bool(pull.running)
        or group.blocked_because(pull) is not None
    )
