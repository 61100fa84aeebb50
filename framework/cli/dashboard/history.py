"""History: what was seen of a group, look after look: figures over time, and what moved when and why. Pure.

It begins with the dashboard, is bounded, and nothing keeps it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from operator import add
from typing import TypeAlias

from framework.model.queue import MessageQueue

Points: TypeAlias = list[tuple[int, float | None]]
"""When, in Unix milliseconds, and how much; None: not known."""
SAMPLES_MAX = 720
"""An hour of looks five seconds apart."""
MOVES_MAX = 200
STANDING_MS = 60_000
"""A queue that commits nothing for longer stands still: members commit every 5 s, and an alert waits as long."""
SHARING_MS = 60_000
"""So long after somebody joined or left a queue that moves is put down to that."""
GROWING_SAMPLES = 4
"""Looks in a row after which a lag that only grew is called growing."""


@dataclass(frozen=True, slots=True)
class GroupSample:
    """One look at a group. What is not known is None."""

    at_ms: int
    ends: int | None = None
    """The sum of its queues' ends."""
    offsets: int | None = None
    queues: int = 0
    lag: int | None = None
    behind_s: float | None = None
    handle_ms: float | None = None
    failed_s: float | None = None
    dead: int | None = None
    """Dead letters that wait."""


@dataclass(frozen=True, slots=True)
class Move:
    """Something that changed between two looks."""

    at_ms: int
    what: str
    why: str
    queue: str = ""


@dataclass(slots=True)
class Track:
    """One group's."""

    samples: deque[GroupSample] = field(default_factory=lambda: deque(maxlen=SAMPLES_MAX))
    moves: deque[Move] = field(default_factory=lambda: deque(maxlen=MOVES_MAX))
    _owners: Mapping[MessageQueue, str | None] | None = None
    _members: frozenset[str] = frozenset()
    _shared: tuple[int, str] = (0, "")
    """When members came or went the last time, and which."""
    standing: dict[MessageQueue, tuple[int, int]] = field(default_factory=dict)
    """Queues that have moved nothing for so many milliseconds, while so many messages wait; the longest first."""
    _stood: dict[MessageQueue, tuple[int, int | None]] = field(default_factory=dict)
    """Of queues with messages that wait: since when their offset is this one."""

    def add(self, sample: GroupSample) -> None:
        self.samples.append(sample)

    @property
    def growing(self) -> bool:
        """Whether the lag grew with each of the last looks."""
        last = [each.lag for each in list(self.samples)[-GROWING_SAMPLES:]]
        return len(last) == GROWING_SAMPLES and all(
            before is not None and after is not None and before < after for before, after in pairwise(last)
        )

    def compare(self, at_ms: int, owners: Mapping[MessageQueue, str | None], members: frozenset[str]) -> None:
        """Note which members came and went, and which queues changed hands, with the reason as far as it shows."""
        if self._owners is not None:
            came, left = sorted(members - self._members), sorted(self._members - members)
            for name in came:
                self.moves.append(Move(at_ms, f"member {name} joined", "brokers list it"))
            for name in left:
                self.moves.append(Move(at_ms, f"member {name} left", "no broker lists it any more"))
            if came or left:
                self._shared = at_ms, _changed(came, left)
            for queue, owner in sorted(owners.items()):
                before = self._owners.get(queue)
                if before != owner and queue in self._owners:
                    what = f"{queue}: {_named(before)} > {_named(owner)}"
                    self.moves.append(Move(at_ms, what, self._why(at_ms, before, left), str(queue)))
        self._owners, self._members = dict(owners), members

    def _why(self, at_ms: int, before: str | None, left: list[str]) -> str:
        """Members share queues a while after one came or went: brokers tell them, or they look every 20 s."""
        when_ms, change = self._shared
        if before in left:
            return f"{before} left the group"
        if change and at_ms - when_ms <= SHARING_MS:
            return f"{change}, and queues are shared anew"
        return "it had no owner" if before is None else "members shared queues anew; nobody was seen to join or leave"

    def watch(self, at_ms: int, waiting: Mapping[MessageQueue, tuple[int | None, int]]) -> None:
        """Note which queues moved, of those where so many messages wait and that should move."""
        before, self._stood = self._stood, {}
        standing: dict[MessageQueue, tuple[int, int]] = {}
        for queue, (offset, lag) in waiting.items():
            since_ms, known = before.get(queue, (at_ms, offset))
            since_ms = since_ms if known == offset else at_ms
            self._stood[queue] = since_ms, offset
            if at_ms - since_ms >= STANDING_MS:
                standing[queue] = at_ms - since_ms, lag
        self.standing = dict(sorted(standing.items(), key=lambda each: (-each[1][0], each[0])))

    # Over time

    def rates(self, of: Callable[[GroupSample], int | None]) -> Points:
        """How much a count grew a second; None where it is not known, or where its queues were others."""
        found: Points = []
        samples = list(self.samples)
        for before, after in pairwise(samples):
            low, high, passed_ms = of(before), of(after), after.at_ms - before.at_ms
            is_same = low is not None and high is not None and before.queues == after.queues and passed_ms > 0
            grown = max(high - low, 0) * 1000 / passed_ms if is_same and low is not None and high is not None else None
            found.append((after.at_ms, grown))
        return found

    @property
    def in_s(self) -> float | None:
        """What came in a second, between the last two looks."""
        return last(self.rates(lambda each: each.ends))

    @property
    def out_s(self) -> float | None:
        return last(self.rates(lambda each: each.offsets))

    def line(self, of: Callable[[GroupSample], float | None]) -> Points:
        return [(each.at_ms, of(each)) for each in list(self.samples)]


def _named(member: str | None) -> str:
    return member or "nobody"


def _changed(came: list[str], left: list[str]) -> str:
    told = ((came, "joined"), (left, "left"))
    return "; ".join(f"{', '.join(names)} {verb}" for names, verb in told if names)


def last(points: Points) -> float | None:
    return points[-1][1] if points else None


def joined(lines: list[Points], join: Callable[[float, float], float] = add) -> Points:
    """Several groups' figures of the same looks in one line; where one is not known the others count."""
    found: dict[int, float | None] = {}
    for line in lines:
        for at_ms, value in line:
            before = found.setdefault(at_ms, None)
            if value is not None:
                found[at_ms] = join(before or 0, value)
    return sorted(found.items())
