"""Standstill: logs a queue that has stopped although messages wait in it, and restarts its loop.

Every known reason to wait is logged where it arises. This looks for the others, from outside: a queue of ours in which
for a minute nothing was pulled and nothing was done, while its broker has more than we have handled. It asks nothing of
a queue that makes progress, and asks the broker for its end only if no pull was made for that minute.

Where handlers keep it waiting, its own or those that have all the group's places, that is said, and nothing restarted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple, Protocol
from weakref import WeakKeyDictionary

import structlog

from framework.client.brokers import Brokers
from framework.core import limits
from framework.core.queue_flow import QueueState, lag_of
from framework.errors import FrameworkError
from framework.model.queue import MessageQueue
from framework.ports import Clock
from framework.services.queue.pull import PullLoop

log = structlog.get_logger()

LOOK_SECONDS = 10.0
NAMED_MAX = 5


class HeldUp(NamedTuple):
    """What keeps a queue waiting, as its log line says it."""

    oldest_ms: int
    """For how long the oldest handler has run."""
    running: int
    concurrency: int
    message: str
    """The first that the oldest handler has."""
    place: str
    """Where that handler is: its innermost frames."""


class Watched(Protocol):
    """A group, as this looks at it."""

    @property
    def owned(self) -> dict[MessageQueue, PullLoop]: ...
    def blocked_because(self, pull: PullLoop) -> str | None:
        """What a message of this queue waits for, which is reported by another."""
        ...

    def held_up_by(self, pull: PullLoop) -> HeldUp | None:
        """The handlers that its messages wait for: its own, or those that have all places."""
        ...

    def start_anew(self, pull: PullLoop) -> None: ...


@dataclass(slots=True)
class _Seen:
    """Where a queue was when it last got on."""

    place: tuple[int, int]
    at: float
    quiet_at: float = 0.0
    """When it was last known that nothing waits."""
    excused_at: float = 0.0
    """When it last had a reason to stand."""
    is_named: bool = False


class Standstill:
    """One an application."""

    def __init__(self, groups: Callable[[], Iterable[tuple[str, Watched]]], brokers: Brokers, clock: Clock) -> None:
        self._groups, self._brokers, self._clock = groups, brokers, clock
        # A loop that is lost goes at once, with the messages that it had: the next look may be far away.
        self._seen: WeakKeyDictionary[PullLoop, _Seen] = WeakKeyDictionary()
        self._most_s = limits.STANDSTILL_MS / 1000
        self._held_up: dict[str, list[PullLoop]] = {}
        """Group -> its queues that wait for handlers, as of the last look; a group that stands here was named."""

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
            held_up = [pull for pull in list(group.owned.values()) if await self._look(name, group, pull)]
            self._say_held_up(name, group, held_up)
        alive = {pull for _, group in self._groups() for pull in group.owned.values()}
        for pull in list(self._seen):
            if pull not in alive:
                del self._seen[pull]

    def _say_held_up(self, name: str, group: Watched, pulls: list[PullLoop]) -> None:
        """Once, until none waits any more."""
        before = self._held_up.pop(name, [])
        if pulls:
            self._held_up[name] = pulls
        if before and not pulls:
            log.info("handlers go on", group=name)
        elif pulls and not before and (held := group.held_up_by(pulls[0])) is not None:
            queues = [str(pull.queue) for pull in pulls]
            log.warning(
                "queues wait for handlers",
                group=name, waiting=len(queues), queues=queues[:NAMED_MAX], running=held.running,
                concurrency=held.concurrency, oldest_ms=held.oldest_ms, message=held.message, place=held.place,
            )  # fmt: skip

    async def _look(self, name: str, group: Watched, pull: PullLoop) -> bool:
        """Whether the queue waits for handlers, and has done so for long."""
        flow, now = pull.flow, self._clock.monotonic()
        place = flow.window.committable, flow.next_offset
        seen = self._seen.get(pull)
        if seen is not None and seen.place == place and not seen.is_named and self._is_idle(pull, now):
            seen.quiet_at = now
            return False  # as most of a thousand queues at most looks
        if seen is None or seen.place != place:
            if seen is not None and seen.is_named:
                log.info("queue recovered", group=name, queue=str(pull.queue), committable=place[0])
            self._seen[pull] = _Seen(place, now)
            return False
        if _has_reason(group, pull, now):
            seen.excused_at, seen.is_named = now, False
            return False
        since = max(seen.at, pull.left_at)
        held = group.held_up_by(pull) if now - since >= self._most_s else None
        if held is not None and held.oldest_ms >= self._most_s * 1000:
            seen.excused_at, seen.is_named = now, False
            return True
        if pull.running:
            seen.excused_at = now
        if now - max(since, seen.excused_at) < self._most_s:
            return False
        lag = await self._lag(pull, place, now)
        if lag is None or group.owned.get(pull.queue) is not pull or flow.state is QueueState.RETIRING:
            return False  # nobody can say, or the queue was lost while the broker was asked
        if not lag:
            seen.quiet_at = now
            return False
        if not seen.is_named:
            seen.is_named = True
            log.error(
                "queue stalled",
                group=name, queue=str(pull.queue), state=flow.state.value, lag=lag,
                stalled_ms=round((now - max(seen.at, seen.quiet_at, seen.excused_at)) * 1000),
                pull_age_ms=round((now - pull.pulled_at) * 1000),
                reason=flow.failure or flow.held_because,
            )  # fmt: skip
        if now - pull.pulled_at >= self._most_s and flow.state is not QueueState.CLAIMED:
            group.start_anew(pull)
        return False

    def _is_idle(self, pull: PullLoop, now: float) -> bool:
        """Whether nothing waits, by what a pull of late said."""
        flow = pull.flow
        return 0 <= flow.max_offset <= flow.window.committable and now - pull.pulled_at < self._most_s

    async def _lag(self, pull: PullLoop, place: tuple[int, int], now: float) -> int | None:
        """How many messages wait, as far as anybody knows; None where the broker does not say."""
        if pull.popped is not None:
            return lag_of(pull.flow)  # it stands for several queues, of which no broker knows one end
        end = pull.flow.max_offset
        if now - pull.pulled_at >= self._most_s:
            try:
                end = await self._brokers.max_offset(pull.queue)
            except FrameworkError:
                return None  # the broker is away, which is named where it is called
        return max(end - max(place[0], 0), 0)


def _has_reason(group: Watched, pull: PullLoop, now: float) -> bool:
    """Whether it stands on purpose: that is named elsewhere, or is no trouble.

    A failure is a reason until its next try is due: only a loop that tries no more stands still.
    """
    flow = pull.flow
    return (
        flow.is_paused
        or pull.waits_for_rate
        or now * 1000 < flow.health.until_ms
        or flow.state is QueueState.RETIRING
        or group.blocked_because(pull) is not None
    )
