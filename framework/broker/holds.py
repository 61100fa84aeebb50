"""Long polls: pulls that wait for a message in their queue, or for their deadline.

A hold ends once: by a message that its filter lets through, by its deadline to the millisecond (RocketMQ looks every
5 s), or with its connection. What happens then is the caller's.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from sys import getsizeof

from framework.broker.answers import Client, Hold
from framework.broker.filters import CONDITION_BYTES, TAG_BYTES
from framework.broker.rounds import Timer, Timers
from framework.broker.store.queues import Queue
from framework.broker.store.writer import Row
from framework.broker.work import Work, asking
from framework.model.queue import MessageQueue
from framework.model.sql92 import Expression
from framework.wire.stored import Records, properties_size

HOLDS_MAX = 100_000
_HEAP_SLACK = 1000
# About what a hold costs beside its texts: the request, what it waits for, and its places in three indexes.
HOLD_BYTES = 1500


class _Held:
    __slots__ = ("client", "group", "size", "wake", "wish")

    def __init__(self, wish: Hold, client: Client, fields: Mapping[str, str], wake: Callable[[], None]) -> None:
        self.wish, self.client = wish, client
        self.wake: Callable[[], None] | None = wake
        """None once it has ended."""
        self.group = fields.get("consumerGroup")
        self.size = HOLD_BYTES + sum(map(getsizeof, fields.values()))
        if wish.condition is not None:
            self.size += len(fields.get("subscription", "")) * CONDITION_BYTES
        if wish.tags is not None:
            self.size += len(wish.tags) * TAG_BYTES

    @property
    def where(self) -> tuple[str, int]:
        return self.wish.topic, self.wish.number


class Holds:
    """All waiting pulls of one logical broker."""

    def __init__(self, timers: Timers, a_client_max: int = 2048, bytes_max: int = 1 << 26) -> None:
        self._timers = timers
        self._a_client_max = a_client_max
        self._bytes_max, self._bytes = bytes_max, 0
        self._by_client: dict[Client, dict[_Held, None]] = {}
        self._by_queue: dict[tuple[str, int], dict[_Held, None]] = {}
        self._deadlines: list[tuple[float, int, _Held]] = []
        self._count = 0
        self._sequence = 0
        self._timer: Timer | None = None
        self._timer_at = 0.0
        self._work: Work | None = None
        """Of this turn of the loop, where there was any."""

    def __len__(self) -> int:
        return self._count

    def has_room(self, client: Client) -> bool:
        """Whether one more of this connection may wait."""
        is_room = self._count < HOLDS_MAX and self._bytes < self._bytes_max
        return is_room and len(self._by_client.get(client, ())) < self._a_client_max

    def park(self, hold: Hold, client: Client, fields: Mapping[str, str], wake: Callable[[], None]) -> None:
        """Let a client's request with these fields wait; `wake` is called when it has waited enough."""
        held = _Held(hold, client, fields, wake)
        self._by_queue.setdefault(held.where, {})[held] = None
        self._count += 1
        self._bytes += held.size
        self._by_client.setdefault(client, {})[held] = None
        self._sequence += 1
        heapq.heappush(self._deadlines, (self._timers.time() + hold.timeout_ms / 1000, self._sequence, held))
        if len(self._deadlines) > 2 * self._count + _HEAP_SLACK:
            # Woken holds stay in the heap until their time; a busy queue would leave thousands.
            self._deadlines = [entry for entry in self._deadlines if entry[2].wake is not None]
            heapq.heapify(self._deadlines)
        self._set_timer()

    def arrived(self, queue: Queue, rows: Sequence[Row]) -> None:
        """Wake all who wait for one of these messages in the queue."""
        holds = self._by_queue.get((queue.topic, queue.number))
        if not holds:
            return
        arrival = Arrival(queue, rows, self.work)
        for held in [held for held in holds if arrival.is_wanted(held.wish)]:
            self._end(held)

    def work(self) -> Work:
        """What is left of this turn's for comparing what arrives."""
        if self._work is None:
            self._work = Work()
            self._timers.call_later(0, self._begin_turn)
        return self._work

    def _begin_turn(self) -> None:
        self._work = None

    def wake_one(self, topic: str, number: int, arrival: Arrival | None = None) -> bool:
        """Wake the first who waits there for one of these messages, or for any; whether somebody did."""
        for held in self._by_queue.get((topic, number), ()):
            if arrival is None or arrival.is_wanted(held.wish):
                self._end(held)
                return True
        return False

    def count(self, topic: str, number: int) -> int:
        """How many wait there."""
        return len(self._by_queue.get((topic, number), ()))

    def look_again(self, group: str, topic: str) -> None:
        """Wake a group's pulls of a topic: where it goes on was changed."""
        for (name, _), holds in list(self._by_queue.items()):
            if name == topic:
                for held in list(holds):
                    if held.group == group:
                        self._end(held)

    def forget(self, client: Client) -> None:
        """Drop what a connection waited for; nobody is there to answer."""
        for held in list(self._by_client.get(client, ())):
            self._take(held)

    def end_all(self) -> None:
        """Wake everybody at once: the broker stops."""
        for holds in list(self._by_queue.values()):
            for held in list(holds):
                self._end(held)
        self.clear()

    def clear(self) -> None:
        """Forget everybody."""
        self._by_queue.clear()
        self._deadlines.clear()
        self._by_client.clear()
        self._count = self._bytes = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end(self, held: _Held) -> None:
        wake = self._take(held)
        if wake is not None:
            wake()

    def _take(self, held: _Held) -> Callable[[], None] | None:
        wake, held.wake = held.wake, None
        if wake is not None:
            self._count -= 1
            self._bytes -= held.size
            of_client = self._by_client[held.client]
            del of_client[held]
            if not of_client:
                del self._by_client[held.client]
            holds = self._by_queue[held.where]
            del holds[held]
            if not holds:
                del self._by_queue[held.where]
        return wake

    def _set_timer(self) -> None:
        due = self._deadlines[0][0]
        if self._timer is not None:
            if self._timer_at <= due:
                return
            self._timer.cancel()
        self._timer_at = due
        self._timer = self._timers.call_later(max(due - self._timers.time(), 0), self._look)

    def _look(self) -> None:
        self._timer = None
        now = self._timers.time()
        while self._deadlines and self._deadlines[0][0] <= now:
            _, _, held = heapq.heappop(self._deadlines)
            self._end(held)
        while self._deadlines and self._deadlines[0][2].wake is None:
            heapq.heappop(self._deadlines)
        if self._deadlines and self._timer is None:
            self._set_timer()


class Arrival:
    """What one group of writes brought to one queue, held against what waits for it.

    Each message is taken apart once and each condition asked once, however many pulls wait with it: groups that filter
    alike share one. `work` answers what is left of the work of this turn; beyond it pulls that wait with a condition
    are woken to compare in their own turn. One that is woken in vain is told to pull again.
    """

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
