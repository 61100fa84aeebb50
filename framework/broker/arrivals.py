"""Messages that have just been committed to a queue, held against what waiting pulls want.

Each message is taken apart once and each condition asked once, however many pulls wait with it: groups that filter
alike share one condition. Where no pull filters by properties, nothing is taken apart.
"""

from __future__ import annotations

from collections.abc import Sequence

from framework.broker.request import Hold
from framework.broker.store.queues import Queue
from framework.broker.store.writer import Row
from framework.model.queue import MessageQueue
from framework.model.sql92 import Expression
from framework.wire.stored import Records

# Messages compared with conditions per arrival, some ten milliseconds. Other pulls that wait with a condition are woken
# to compare in their own turn; one that is woken in vain is told to pull again.
LOOKS_MAX = 2000


class Arrival:
    """What one group of writes brought to one queue."""

    __slots__ = ("_answers", "_looks", "_properties", "_queue", "_rows", "_tags")

    def __init__(self, queue: Queue, rows: Sequence[Row]) -> None:
        self._queue = queue
        self._rows = rows
        self._tags = frozenset(tag for _, _, _, tag, _, _ in rows)
        self._properties: list[dict[str, str]] = []
        self._answers: dict[int, bool] = {}
        self._looks = 0

    def is_wanted(self, hold: Hold) -> bool:
        """Whether a message is among them that the pull would be given."""
        if hold.condition is not None:
            return self._fits(hold.condition)
        return hold.tags is None or not hold.tags.isdisjoint(self._tags)

    def _fits(self, condition: Expression) -> bool:
        answer = self._answers.get(id(condition))
        if answer is None:
            answer = self._answers[id(condition)] = self._looks > LOOKS_MAX or self._any(condition)
        return answer

    def _any(self, condition: Expression) -> bool:
        for i in range(len(self._rows)):
            self._looks += 1
            if self._looks > LOOKS_MAX or condition.matches(self._of(i)):
                return True
        return False

    def _of(self, index: int) -> dict[str, str]:
        if index == len(self._properties):
            place = MessageQueue(self._queue.topic, self._queue.broker, self._queue.number)
            *_, record = self._rows[index]
            self._properties.append(Records(bytes(record), place).properties(0))
        return self._properties[index]
