"""Popping: where each group goes on, who waits for a message, and what comes back when its invisible time is over.

A pop moves the group's committed offset and notes who holds the messages, in one write: a crash leaves both or neither.
Between the request and that write the offset is reserved here, so that two pops never get one message. A message whose
time is over is written to the group's retry topic, and its row removed, in one write as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from framework.broker.answers import Refusal
from framework.broker.delays import Delays
from framework.broker.filters import Wanted, read_wanted, tag_hash
from framework.broker.holds import Arrival, Holds
from framework.broker.loans import Loan
from framework.broker.records import decode, encode, key_hashes
from framework.broker.rounds import ROUND_MAX, Rounds, Timers
from framework.broker.store import popped
from framework.broker.store.offsets import Offsets
from framework.broker.store.popped import Overdue, PoppedRow
from framework.broker.store.queues import OFFSET_BITS, Queue
from framework.broker.store.sent_back import GroupPlace
from framework.broker.store.store import Store
from framework.broker.store.tables import NamedValues
from framework.broker.store.topics import Topic
from framework.broker.store.writer import Row, Transaction
from framework.broker.topic_rules import TopicRules
from framework.broker.work import Work
from framework.model.message import TAGS
from framework.model.reserved import RETRY_PREFIX, pop_retry_topic
from framework.ports import Chance
from framework.wire.codes import ResponseCode
from framework.wire.requests.receipts import FIRST_POP, NORMAL, ORIGIN_GROUP, RETRY

ANY_QUEUE = -1
# A filter that lets nothing through has this many stretches of a queue read per pop; the next pop goes on behind them.
_READS_MAX = 4


@dataclass(slots=True)
class Scoop:
    """What a pop takes of one queue."""

    place: GroupPlace
    queue: Queue
    start: int | None
    """The committed offset that it goes on from; None where there was none."""
    first: int
    following: int
    records: list[bytes]
    offsets: list[int]
    retry: str
    is_reset: bool = False
    is_put: bool = False


class Pops:
    """Those of one logical broker."""

    def __init__(
        self, broker: str, holds: Holds, *, store: Store, rules: TopicRules, offsets: Offsets, delays: Delays,
        timers: Timers, chance: Chance, trouble: Callable[[str], None], bytes_max: int,
    ) -> None:  # fmt: skip
        self._broker, self._store, self._rules, self._offsets = broker, store, rules, offsets
        self._delays, self._chance, self._trouble = delays, chance, trouble
        self._bytes_max = bytes_max
        self.holds = holds
        """Pops that wait, each in its group's name for the topic."""
        self.modes = RequestModes(store.values, broker)
        self._reserved: dict[GroupPlace, tuple[int, int]] = {}
        """Where the next pop goes on while others are on their way to the disk, and how many are."""
        self._groups: dict[str, dict[str, None]] = {}
        """Groups that popped a topic: told of its arrivals."""
        self._retries: dict[str, tuple[str, str]] = {}
        """Of each retry topic of theirs, the group and the topic."""
        self.rounds = Rounds(
            timers, store.writer, delays.now_ms, self._revive, "popped messages could not be returned", trouble
        )
        self.is_stopped = False

    def start(self) -> None:
        """Take up what the store has as popped."""
        self.rounds.start(popped.next_due_ms(self._store.database.writing, self._broker))

    def stop(self) -> None:
        self.is_stopped = True
        self.rounds.stop()
        self.holds.clear()

    def know(self, group: str, topic: str) -> None:
        """A group pops a topic: it is to hear of arrivals."""
        self._groups.setdefault(topic, {})[group] = None
        self._retries[pop_retry_topic(group, topic)] = (group, topic)

    def take(
        self, group: str, topic: Topic, number: int, wanted: Wanted, *, count: int, from_end: bool
    ) -> tuple[list[Scoop], Loan]:
        """Reserve up to `count` messages; the retry topic is read first in one of five pops, else last.

        The loan is the reservation, which ends when the pop is on disk, or could not be.
        """
        numbers: Sequence[int] = (number,)
        if number == ANY_QUEUE:
            begin = self._chance.below(max(topic.read_queues, 1))
            numbers = [(begin + i) % topic.read_queues for i in range(topic.read_queues)]
        retry = self._rules.topics.get(pop_retry_topic(group, topic.name))
        sources = [(GroupPlace(group, topic.name, each), wanted, from_end) for each in numbers]
        retries = [] if retry is None else [
            (GroupPlace(group, retry.name, each), Wanted(retry.name), False) for each in range(retry.read_queues)
        ]  # fmt: skip
        is_retry_first = self._chance.below(5) == 0
        found: list[Scoop] = []
        size, work = self._bytes_max, Work()
        # Behind a damaged message, what was reserved before it is for the next pop.
        with Loan(partial(self._let_go, found)) as reserved:
            for place, wish, from_last in [*retries, *sources] if is_retry_first else [*sources, *retries]:
                if count <= 0 or size <= 0 or work.left <= 0:
                    break
                portion = self._portion(place, wish, work, count=count, size=size, from_end=from_last)
                if portion is not None:
                    found.append(portion)
                    count -= len(portion.records)
                    size -= sum(map(len, portion.records))
            return found, reserved.hand_on()

    def has_any(self, group: str, topic: Topic, number: int) -> bool:
        """Whether messages lie behind the group's place, without a look at its filter."""
        numbers = range(topic.read_queues) if number == ANY_QUEUE else (number,)
        retry = self._rules.topics.get(pop_retry_topic(group, topic.name))
        places = [GroupPlace(group, topic.name, each) for each in numbers]
        places += [GroupPlace(group, retry.name, each) for each in range(retry.read_queues)] if retry else []
        return any(self._rest(place) > 0 for place in places)

    def hold(self, portions: Sequence[Scoop], *, popped_ms: int, due_ms: int) -> Callable[[Transaction], None]:
        """A change that notes who holds the messages, and where the group goes on."""
        offsets, name = self._offsets, self._broker

        def change(transaction: Transaction) -> None:
            # All of them before the first is put: what a refusal undoes is on disk alone, and offsets are in memory. A
            # second run, where another change of the group of writes was undone, has put them already.
            if any(not each.is_put and offsets.get(*each.place) != each.start for each in portions):
                group = portions[0].place.group
                raise Refusal(ResponseCode.POLLING_TIMEOUT, f"the offset of {group} was moved meanwhile")
            for portion in portions:
                place = portion.place
                if portion.is_reset:
                    popped.forget_queue(transaction.connection, name, place.group, portion.queue)
                base = portion.queue.base
                rows = [PoppedRow(name, place.group, base + each, popped_ms, due_ms) for each in portion.offsets]
                popped.put(transaction.connection, rows)
                if not portion.is_put:
                    portion.is_put = True
                    offsets.put(*place, portion.following)

        return change

    def not_held(self, portions: Sequence[Scoop]) -> None:
        """Hear that the change could not be written: the messages are popped again."""
        for portion in portions:
            if portion.is_put:
                before = self._offsets.get(*portion.place)
                start = portion.first if portion.start is None else portion.start
                self._offsets.put(*portion.place, start if before is None else min(before, start))

    def arrived(self, queue: Queue, rows: list[Row]) -> None:
        """Wake one waiting pop of each group that pops the topic."""
        if queue.topic.startswith(RETRY_PREFIX):
            known = self._retries.get(queue.topic)
            if known is not None:
                self.more(*known)
            for group in self._groups.get(queue.topic, ()):
                self.more(group, queue.topic)
            return
        groups = self._groups.get(queue.topic)
        if groups and len(self.holds):
            arrival = Arrival(queue, rows, self.holds.work)
            for group in groups:
                name = waiting_name(group, queue.topic)
                if not self.holds.wake_one(name, queue.number, arrival):
                    self.holds.wake_one(name, ANY_QUEUE, arrival)

    def more(self, group: str, topic: str) -> None:
        """Wake another waiting pop of a group: there is more to take than the last one took."""
        known, name = self._rules.topics.get(topic), waiting_name(group, topic)
        for number in range(ANY_QUEUE, 0 if known is None else known.read_queues):
            if self.holds.wake_one(name, number):
                return

    def rest(self, group: str, topic: Topic, number: int) -> int:
        """How many messages lie behind the group's place."""
        numbers = range(topic.read_queues) if number == ANY_QUEUE else (number,)
        return sum(self._rest(GroupPlace(group, topic.name, each)) for each in numbers)

    def _rest(self, place: GroupPlace) -> int:
        queue = self._store.queues.find(self._broker, place.topic, place.number)
        if queue is None:
            return 0
        position = self._position(place)
        return max(queue.end - max(queue.low if position is None else position, queue.low), 0)

    def _position(self, place: GroupPlace) -> int | None:
        reserved = self._reserved.get(place)
        return self._offsets.get(*place) if reserved is None else reserved[0]

    def _portion(
        self, place: GroupPlace, wanted: Wanted, work: Work, *, count: int, size: int, from_end: bool
    ) -> Scoop | None:
        queue = self._store.queues.find(self._broker, place.topic, place.number)
        if queue is None or queue.end == 0 or not self._offsets.has_room(*place):
            return None
        is_reset = False
        if self._offsets.resets and place not in self._reserved:
            is_reset = self._offsets.take_reset(*place) is not None
        start = self._position(place)
        first = (max(queue.end - 1, 0) if from_end else queue.low) if start is None else start
        first = min(max(first, queue.low), queue.end)
        offset, records = first, list[bytes]()
        for _ in range(_READS_MAX):
            if offset >= queue.end or records or work.left <= 0:
                break
            records, offset = read_wanted(self._store.log, queue, offset, wanted, work, count_max=count, bytes_max=size)
        if offset == start and not is_reset:
            return None
        reserved = self._reserved.get(place)
        self._reserved[place] = (offset, 1 if reserved is None else reserved[1] + 1)
        return Scoop(
            place, queue, start, first, offset, records, [offset_of(record) for record in records],
            RETRY if place.topic.startswith(RETRY_PREFIX) else NORMAL, is_reset,
        )  # fmt: skip

    def _let_go(self, portions: Sequence[Scoop]) -> None:
        for portion in portions:
            reserved = self._reserved.get(portion.place)
            if reserved is not None and reserved[1] > 1:
                self._reserved[portion.place] = (reserved[0], reserved[1] - 1)
            else:
                self._reserved.pop(portion.place, None)

    def _revive(self, transaction: Transaction) -> int | None:
        """Put what is overdue on the retry topics; when the next one is due."""
        transaction.flush()
        connection = transaction.connection
        for overdue in popped.take_due(connection, self._broker, self._delays.now_ms(), ROUND_MAX):
            if overdue.record is None:
                self._trouble(f"popped message {overdue.popped.message} is damaged: held, not delivered again")
            elif overdue.record:
                self._return(transaction, overdue)
        return popped.next_due_ms(connection, self._broker)

    def _return(self, transaction: Transaction, overdue: Overdue) -> None:
        """A copy on the retry topic, with one attempt more. What lies in a deleted queue is gone."""
        _, group, message, popped_ms, _ = overdue.popped
        queue = self._store.queues.by_id(message >> OFFSET_BITS)
        if queue is None or overdue.record is None:
            return
        record = decode(overdue.record)
        is_retry = queue.topic.startswith(RETRY_PREFIX)
        name = queue.topic if is_retry else pop_retry_topic(group, queue.topic)
        if name not in self._rules.topics:
            self._rules.add(Topic(name=name, read_queues=1, write_queues=1))
        if not is_retry:
            self.know(group, queue.topic)
        properties = {FIRST_POP: str(popped_ms), **record.properties, ORIGIN_GROUP: group}
        attempts = record.reconsume_times + 1
        copy = replace(record, topic=name, queue_id=0, properties=properties, reconsume_times=attempts)
        try:
            data = encode(copy)
        except Refusal:
            # With the time of its first pop it no longer fits into a record, which is no reason to lose it.
            data = encode(replace(copy, properties=record.properties))
        transaction.append(self._broker, name, 0, data, tag_hash(properties.get(TAGS)), key_hashes(copy))


def waiting_name(group: str, topic: str) -> str:
    """What a group's waiting pops of a topic are found by; no name of a topic has a space."""
    return f"{group} {topic}"


def offset_of(record: bytes) -> int:
    return int.from_bytes(record[20:28], "big")


PULL, POP = "PULL", "POP"
MODES = (PULL, POP)


class Mode(NamedTuple):
    """How one group takes one topic."""

    name: str = PULL
    share_queues: int = 0
    """Of how many members after it in the list a member pops the queues, too; 0: every member pops every queue."""


class RequestModes:
    """Whether a group pulls a topic or pops it, as administrators chose (`setConsumeMode`); kept over a restart."""

    def __init__(self, values: NamedValues, broker: str) -> None:
        self._values, self._scope = values, f"modes:{broker}"

    def get(self, group: str, topic: str) -> Mode:
        saved = self._values.get(self._scope, _name(group, topic))
        if saved is None:
            return Mode()
        name, _, share = saved.partition(" ")
        return Mode(name, int(share))

    def put(self, group: str, topic: str, mode: Mode) -> None:
        self._values.put(self._scope, _name(group, topic), f"{mode.name} {mode.share_queues}")


def _name(group: str, topic: str) -> str:
    return f"{group} {topic}"
