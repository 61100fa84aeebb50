"""Assignment: which queues of a group are ours, and what changes when a strategy is asked again.

A failed or empty member list is not an answer (it never drops everything); the caller leaves the topic as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from framework.errors import StrategyFault
from framework.model.contracts import AllocationStrategy
from framework.model.queue import MessageQueue


@dataclass(frozen=True, slots=True)
class AssignmentChange:
    """What one round changes for one topic."""

    gained: tuple[MessageQueue, ...]
    lost: tuple[MessageQueue, ...]

    def __bool__(self) -> bool:
        return bool(self.gained or self.lost)


class Moves:
    """How often a group's queues here became others, since the start."""

    __slots__ = ("gained", "lost", "rebalances")

    def __init__(self) -> None:
        self.rebalances = self.gained = self.lost = 0

    def add(self, change: AssignmentChange) -> None:
        self.rebalances += bool(change)
        self.gained += len(change.gained)
        self.lost += len(change.lost)


def allocate(
    strategy: AllocationStrategy, member: str, members: Sequence[str], queues: Sequence[MessageQueue]
) -> list[MessageQueue]:
    """Ask the strategy with sorted inputs and check its answer: known queues only, none twice.

    Members that do not list us get no queue: the broker has not seen our heartbeat, and others count without us.
    """
    known = sorted(set(members))
    if member not in known:
        return []
    offered = sorted(set(queues))
    answer = strategy.allocate(member, known, offered)
    wanted = sorted(set(answer))
    known_queues = frozenset(offered)
    strangers = [queue for queue in wanted if queue not in known_queues]
    if strangers:
        raise StrategyFault(f"allocation {strategy.name!r} named {strangers[0]}, which is no queue of the topic")
    if len(wanted) != len(answer):
        raise StrategyFault(f"allocation {strategy.name!r} named a queue twice")
    return wanted


class Assignment:
    """The owned queues of one group. The rebalance loop is its only writer."""

    __slots__ = ("_owned",)

    def __init__(self) -> None:
        self._owned: dict[str, tuple[MessageQueue, ...]] = {}

    def put(self, topic: str, wanted: Sequence[MessageQueue]) -> AssignmentChange:
        """Make `wanted` the owned queues of the topic and answer what that changes."""
        before = self._owned.get(topic, ())
        now = tuple(sorted(wanted))
        if now:
            self._owned[topic] = now
        else:
            self._owned.pop(topic, None)
        kept = frozenset(before).intersection(now)  # a group may own a thousand queues, and looks every 20 s
        return AssignmentChange(
            gained=tuple(queue for queue in now if queue not in kept),
            lost=tuple(queue for queue in before if queue not in kept),
        )

    def of(self, topic: str) -> tuple[MessageQueue, ...]:
        return self._owned.get(topic, ())

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(sorted(self._owned))

    @property
    def queues(self) -> list[MessageQueue]:
        return [queue for topic in sorted(self._owned) for queue in self._owned[topic]]
