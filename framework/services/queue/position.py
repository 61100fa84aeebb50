"""Where an owned queue begins: at the group's stored offset, or where the policy for new groups says.

A failed query is an error and never "nothing stored": if a timeout counted as a new group, it would start at the end
and lose everything between.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

from framework import marks
from framework.errors import BrokerUnreachable, ProtocolError
from framework.model.durations import to_text
from framework.model.queue import MessageQueue
from framework.model.reserved import retry_topic
from framework.model.subscription import Start

MARGIN_MS = 2 * 3_600_000
"""By how much the clock of a broker may be behind, for what it is sent to count as sent since."""


@dataclass(frozen=True, slots=True)
class StartingPoint:
    """Where to begin and why, for the one log line that each queue's decision gets."""

    offset: int
    reason: str
    stored: int | None
    end: int = -1
    """Where the queue ends now: whoever begins there has nothing to catch up on. -1 where nobody asked."""


NowAt: TypeAlias = Callable[[str], Awaitable[int | None]]
"""The time by which to age what a broker stored (`services/clocks.py`); None: nobody can tell how old it is."""


class KeepsOffsets(Protocol):
    """Where a group's offsets are kept: at its brokers, or on this machine. Each raises where that cannot be asked."""

    async def query_offset(self, group: str, queue: MessageQueue) -> int | None: ...
    async def min_offset(self, queue: MessageQueue) -> int: ...
    async def max_offset(self, queue: MessageQueue) -> int: ...
    async def search_offset(self, queue: MessageQueue, timestamp_ms: int) -> int: ...
    async def commit(self, group: str, queue: MessageQueue, offset: int) -> None: ...
    async def commit_one_way(
        self, group: str, queue: MessageQueue, committable: Callable[[], int | None]
    ) -> int | None: ...


class Arrivals:
    """What each topic of a group had when it was first seen, and when that was; so, from where later queues count."""

    def __init__(self, group: str) -> None:
        self._retry_topic = retry_topic(group)
        self._first: dict[str, tuple[frozenset[MessageQueue], int]] = {}

    def seen(self, topic: str, queues: Iterable[MessageQueue], now_ms: int) -> None:
        """The topic has these queues; only the first word counts. The time here is monotonic."""
        if topic not in self._first:
            self._first[topic] = frozenset(queues), now_ms

    def policy_for(self, queue: MessageQueue, policy: Start, now_ms: int, *, is_anew: bool = False) -> Start:
        """The group's policy for queues that were there when it joined.

        Nobody can have meant to skip what is in a queue that appeared since, or on the group's own retry topic. But a
        broker that nobody knew then may be new, or have been away: what it got since the group joined counts, and what
        is older is history as any other's. Its clock need not be ours, hence the margin. The same holds of a queue that
        may be there anew (`is_anew`), since its topic was deleted and made again.
        """
        if queue.topic == self._retry_topic or queue.topic not in self._first:
            return Start("first")
        known, joined_ms = self._first[queue.topic]
        if queue in known and not is_anew:
            return policy
        if not is_anew and any(each.broker == queue.broker for each in known):
            return Start("first")
        match policy:
            case Start("first" | "time"):
                return policy
            case Start("age", age_ms):
                return Start("age", now_ms - joined_ms + max(age_ms, MARGIN_MS))
            case _:
                return Start("age", now_ms - joined_ms + MARGIN_MS)


async def find_start(
    brokers: KeepsOffsets, group: str, queue: MessageQueue, policy: Start, now_at: NowAt
) -> StartingPoint:
    """Ask the broker; raises what the client raises, and the caller asks again later."""
    if marks.rarely("a stored offset is not answered"):
        raise BrokerUnreachable("a question that failed")
    stored = await brokers.query_offset(group, queue)
    await marks.stretched("a stored offset is known")
    end = await brokers.max_offset(queue)
    if stored is not None:
        return StartingPoint(_checked(queue, stored), f"stored {stored}", stored, end)
    match policy:
        case Start("first"):
            offset, said = await brokers.min_offset(queue), "first"
        case Start("last"):
            offset, said = end, "last"
        case Start("age", age_ms):
            now_ms, said = await now_at(queue.broker), f"the last {to_text(age_ms)}"
            if now_ms is None:
                offset, said = await brokers.min_offset(queue), f"{said}, but its broker's clock is not ours"
            else:
                offset = await brokers.search_offset(queue, now_ms - age_ms)
        case Start(_, at_ms):
            offset, said = await brokers.search_offset(queue, at_ms), f"since {at_ms}"
    return StartingPoint(_checked(queue, offset), f"nothing stored, policy {said} -> {offset}", None, end)


def doubt_settled(start: StartingPoint, named: int | None, *, is_back: bool = False) -> StartingPoint:
    """Where to go on after a broker named an offset that was not believed at once; None: it did not.

    What the master has stored stands above it. Where nothing is stored, an offset ahead is taken: a policy is for
    groups never seen, and this one was at work. One that is behind us is the end of a queue whose offsets are gone as
    well, as in a topic made again: what lies below is not what we have read, so the policy is for it.
    """
    if named is None:
        return start
    if start.stored is None and not is_back:
        return replace(start, offset=named, reason=f"moved by its broker to {named}, and nothing stored")
    return replace(start, reason=f"moved by its broker to {named}, but {start.reason}")


def reached_before(start: StartingPoint, reached: int | None) -> StartingPoint:
    """Where to go on in a queue of which we ourselves had handled all below `reached` (None: nothing is known of that).

    A broker that crashed has offsets of some seconds ago. Where it has none, the topic may be another one of the same
    name, and what ends below `reached` has lost its end: what lies there is not what we have read.
    """
    if reached is None or start.stored is None or not start.stored < reached <= start.end:
        return start
    marks.sometimes("a queue went on where its owner had been, beyond what its broker had stored")
    return replace(start, offset=reached, reason=f"handled up to {reached}, {start.reason}")


def _checked(queue: MessageQueue, offset: int) -> int:
    """No queue begins below 0: that is some error's number, and pulling with it would begin anywhere."""
    if offset < 0:
        raise ProtocolError(f"{queue}: the broker returned invalid offset {offset}")
    return offset
