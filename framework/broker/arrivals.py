"""Messages that have just been committed to a queue, held against what waiting pulls want.

Each message is taken apart once and each condition asked once, however many pulls wait with it: groups that filter
alike share one condition. Where no pull filters by properties, nothing is taken apart.

All that arrives in one turn of the loop may cost so much work. Beyond it pulls that wait with a condition are woken to
compare in their own turn; one that is woken in vain is told to pull again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from framework.broker.request import Hold
from framework.broker.store.queues import Queue
from framework.broker.store.writer import Row
from framework.broker.work import Work, asking
from framework.model.queue import MessageQueue
from framework.model.sql92 import Expression
from framework.wire.stored import Records, properties_size


class Arrival:
    """What one group of writes brought to one queue; `work` answers what is left of the turn's."""

    __slots__ = ("_answers", "_properties", "_queue", "_records", "_rows", "_tags", "_work")

    def __init__(self, queue: Queue, rows: Sequence[Row], work: Callable[[], Work]) -> None:
        self._queue = queue
        self._rows = rows
        self._work = work
        self._tags = frozenset(tag for _, _, _, tag, _, _ in rows)
        self._records: list[Records] = []
        self._properties: list[dict[str, str]] = []
        self._answers: dict[str, bool] = {}

    def is_wanted(self, hold: Hold) -> bool:
        """Whether a message is among them that the pull would be given."""
        if hold.condition is not None:
            return self._fits(hold.condition)
        return hold.tags is None or not hold.tags.isdisjoint(self._tags)

    def _fits(self, condition: Expression) -> bool:
        answer = self._answers.get(condition.text)
        if answer is None:
            answer = self._answers[condition.text] = self._any(condition)
        return answer

    def _any(self, condition: Expression) -> bool:
        for i in range(len(self._rows)):
            steps = asking(condition, properties_size(self._record(i), 0))
            work = self._work()
            if steps > work.left:
                return True  # for all that is known
            work.take(steps)
            if condition.matches(self._of(i)):
                return True
        return False

    def _record(self, index: int) -> Records:
        if index == len(self._records):
            place = MessageQueue(self._queue.topic, self._queue.broker, self._queue.number)
            *_, record = self._rows[index]
            self._records.append(Records(bytes(record), place))
        return self._records[index]

    def _of(self, index: int) -> dict[str, str]:
        if index == len(self._properties):
            self._properties.append(self._record(index).properties(0))
        return self._properties[index]
