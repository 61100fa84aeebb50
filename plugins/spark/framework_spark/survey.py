"""Survey: which queues a query has now, and where they begin and end. It runs in the driver, and holds a reader.

It keeps a name server's answer for some seconds, so that a query of many small triggers does not ask for routes each
time. It decides what an unreachable broker means: no new messages, as long as another one answers.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import TypeVar

from framework.errors import BrokerUnreachable, FrameworkError
from framework.harmless import plain
from framework.mistakes import NotInCluster
from framework.model.queue import MessageQueue
from framework.model.reserved import RETRY_PREFIX
from framework.reading import Columns, Head, Reader
from framework_spark.mistakes import SparkMisused
from framework_spark.offsets import EARLIEST, LATEST, Offsets, flat
from framework_spark.options import Bound, SourceOptions

REFRESH_SECONDS = 5.0  # until a new queue, topic or broker is noticed; Kafka's source asks each trigger
RECENT_SECONDS = 0.5
CLOCKS_MS = 60_000  # by which clocks may differ, of who wrote a time and of this machine
AGES_MAX = 16  # queues that are asked how long their messages wait, at each report
PAUSE_SECONDS = 0.5  # between two questions where nobody answers
EVERYONE = ""

T = TypeVar("T")
Ends = dict[MessageQueue, int]


class DataLost(FrameworkError):
    """Messages that the query was to read are gone; said with the way to go on."""

    id = "FA-K003"

    def __init__(self, reason: object) -> None:
        super().__init__(f"{reason}; option failOnDataLoss=false goes on without them")


class Survey:
    """Made in whichever process Spark asks; `close` leaves nothing open."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._reader = Reader(options.settings)
        self._queues: list[MessageQueue] = []
        self._asked_at: float | None = None
        self._silent: dict[str, float] = {}
        """Broker that does not answer -> since when."""
        self._ends: Ends = {}
        self._ends_at: float | None = None
        self._shown: set[MessageQueue] = set()
        """Queues whose brokers mqadmin asks for the group."""

    def queues(self, *, fresh: bool = False, must_exist: bool = False) -> list[MessageQueue]:
        """Every readable queue of the topics, as name servers know them now (`fresh`) or knew them a moment ago.

        `must_exist`: ConfigurationError for a topic or queue that was named and is not there.
        """
        now = time.monotonic()
        if fresh or must_exist or self._asked_at is None or now - self._asked_at >= REFRESH_SECONDS:
            everything = self._listed()
            if must_exist and not everything and (missing := self._missing(everything)):
                if not self._reader.brokers():
                    raise BrokerUnreachable(f"topic {missing[0]}: no broker is registered at the name servers")
                everything = self._listed()  # brokers bring their topics, and one may have registered in between
            self._queues = [queue for queue in everything if self._options.where.admits(queue)]
            self._asked_at = now
            if must_exist:
                self._check_topics(everything)
                self._check_assigned(everything)
        return self._queues

    def _listed(self) -> list[MessageQueue]:
        return [queue for topic in self._topics() for queue in self._reader.queues(topic)]

    def _missing(self, everything: list[MessageQueue]) -> list[str]:
        # A group has a retry topic once something of it is to be tried again.
        found = {queue.topic for queue in everything}
        return [each for each in self._options.topics if each not in found and not each.startswith(RETRY_PREFIX)]

    def _check_topics(self, everything: list[MessageQueue]) -> None:
        for topic in self._missing(everything):
            reason = f"topic {topic}: no name server of {', '.join(self._options.settings.name_servers)} knows it"
            if self._options.fail_on_data_loss or not everything:
                raise NotInCluster(f"{reason}; create it first")
            warn(f"{reason}; going on without it, as failOnDataLoss=false says")

    def _check_assigned(self, everything: list[MessageQueue]) -> None:
        known = {(queue.topic, broker, queue.number) for queue in everything for broker in (queue.broker, "")}
        for topic, broker, number in sorted(self._options.where.assigned - known):
            place = f"{topic}@{broker}:{number}" if broker else f"queue {number} of {topic}"
            raise NotInCluster(f"option assign: {place} is none of the queues that name servers know now")

    def names(self, topic: str) -> bool:
        """Whether the options say that the topic is read."""
        pattern = self._options.topic_pattern
        return re.fullmatch(pattern, topic) is not None if pattern else topic in self._options.topics

    def _topics(self) -> list[str]:
        if not self._options.topic_pattern:
            return sorted(self._options.topics)
        pattern = re.compile(self._options.topic_pattern)
        return [topic for topic in self._reader.topics() if pattern.fullmatch(topic)]

    def ends(self) -> Ends:
        """The end of every queue whose broker answers. Raises where none does."""
        self._ends = self._ends_of(self.queues())
        self._ends_at = time.monotonic()
        return dict(self._ends)

    def recent_ends(self) -> Ends:
        """The same, as they were asked for a moment ago where they were: Spark asks twice a trigger."""
        if self._ends_at is None or time.monotonic() - self._ends_at >= RECENT_SECONDS:
            with suppress(FrameworkError):  # a report is no reason to fail; what has to be known is asked for again
                return self.ends()
        return dict(self._ends)

    def away(self) -> dict[str, int]:
        """Broker that does not answer -> for how many seconds."""
        return {broker: int(time.monotonic() - since) for broker, since in self._silent.items()}

    def seconds_since(self, behind: Mapping[MessageQueue, tuple[int, int]]) -> dict[MessageQueue, int]:
        """How long ago the first message that waits was stored, of the queues with most messages behind.

        `behind` is how many wait, and the offset of the first. A queue that does not say it is left out.
        """
        there = [queue for queue in behind if queue.broker not in self._silent]  # a report does not wait for others
        most = sorted(there, key=lambda queue: -behind[queue][0])[:AGES_MAX]
        found = {}
        for queue in most:
            try:
                stored_ms = self._stored_ms(queue, behind[queue][1])
            except FrameworkError:
                continue
            if stored_ms is not None:
                found[queue] = max(int(time.time() - stored_ms / 1000), 0)
        return found

    def is_registered(self, broker: str) -> bool:
        """Whether name servers know the broker now; False where none of them answers, either."""
        try:
            return broker in self._reader.brokers()
        except BrokerUnreachable:
            return False

    def begin(self, queue: MessageQueue) -> int:
        return self._reader.min_offset(queue)

    def heads(self, places: Mapping[MessageQueue, int]) -> dict[MessageQueue, Head]:
        return self._reader.heads(places)

    def first(self, queue: MessageQueue) -> int:
        """Where a queue begins that a query has not seen before: its first offset, or the time that was asked for."""
        bound = self._options.starting
        when_ms = self._named(bound.instants).get(queue, bound.timestamp_ms)
        return self.begin(queue) if when_ms is None else self._reader.offset_at(queue, when_ms)

    def bounds(self) -> tuple[Ends, Ends]:
        """What a batch reads: where each queue's range begins, and where it ends."""
        queues = self.queues(must_exist=True)
        begins = self.at("startingOffsets", self._options.starting, queues)
        ends = self.at("endingOffsets", self._options.ending, queues)
        for queue, begin in begins.items():
            if ends[queue] < begin and not self._options.starting.is_earliest:
                raise SparkMisused(
                    f"{queue}: by the starting options the range begins at offset {begin}, and by the ending ones it "
                    f"ends before it, at {ends[queue]}; swap them"
                )
        return begins, ends

    def within(self, queue: MessageQueue, begin: int, end: int) -> tuple[int, int]:
        """Of these offsets, those that the option `where` leaves: store times by the broker's search."""
        where = self._options.where
        begin, end = max(begin, where.begin), min(end, where.end)
        if where.since_ms is not None and begin < end:
            begin = max(begin, self._reader.offset_at(queue, where.since_ms))
        if where.until_ms is not None and begin < end:
            # One more, since brokers of 4.x name the nearest message, which may be the last one before that.
            end = min(end, self._reader.offset_at(queue, where.until_ms) + 1)
        return begin, end

    def at(self, option: str, bound: Bound, queues: list[MessageQueue]) -> Ends:
        """The bound as offsets. What it names must exist; what it does not name is where `everywhere` says.

        An offset beyond the end of its queue is DataLost, or the end where `failOnDataLoss` is false.
        """
        offsets, instants = self._named(bound.queues), self._named(bound.instants)
        strangers = sorted((offsets.keys() | instants.keys()) - set(queues))
        if strangers:
            name = option if strangers[0] in offsets else f"{option}ByTimestamp"
            raise SparkMisused(
                f"option {name}: {strangers[0]} is none of the {len(queues)} queues that are read; leave it out, or "
                "name its topic in the option topic"
            )
        ends = self._reader.max_offsets(queue for queue, offset in offsets.items() if offset >= 0)
        for queue, offset in offsets.items():
            if offset >= 0 and offset > (end := ends[queue] if queue in ends else self._reader.max_offset(queue)):
                reason = f"{option}: {queue} ends at offset {end}, and the option says {offset}"
                if self._options.fail_on_data_loss:
                    raise DataLost(reason)
                warn(f"{reason}; going on at its end, as failOnDataLoss=false says")
                offsets[queue] = end
        found = {}
        for queue in queues:
            when_ms = instants.get(queue, bound.timestamp_ms)
            if when_ms is not None:
                if option == "startingOffsets" and when_ms > time.time() * 1000 + CLOCKS_MS:
                    name = "startingOffsetsByTimestamp" if queue in instants else "startingTimestamp"
                    raise SparkMisused(
                        f"option {name}: {queue} is to begin at {written(when_ms)}, which is to come; from now on is "
                        "startingOffsets=latest"
                    )
                found[queue] = self._offset_at(queue, when_ms, must_match=bound.must_match)
            else:
                found[queue] = resolved(self._reader, queue, offsets.get(queue, bound.everywhere))
        return found

    def _named(self, given: Offsets) -> Ends:
        named = flat(given)
        return {queue: number for queue, number in named.items() if self._options.where.admits(queue)}

    def _offset_at(self, queue: MessageQueue, when_ms: int, *, must_match: bool) -> int:
        offset = self._reader.offset_at(queue, when_ms)
        if must_match:
            # Brokers of 4.x name the nearest message, which may have been stored before.
            stored_ms = self._stored_ms(queue, offset) if offset < self._reader.max_offset(queue) else None
            if stored_ms is None or stored_ms < when_ms:
                raise SparkMisused(
                    f"{queue}: no message was stored at or after {written(when_ms)}; "
                    "startingOffsetsByTimestampStrategy=latest begins at its end"
                )
        return offset

    def _stored_ms(self, queue: MessageQueue, offset: int) -> int | None:
        """When the message was stored; None where it is gone or damaged."""
        pulled = self._reader.pull(queue, offset, offset + 1)
        columns = Columns(queue)
        columns.add(pulled.data, offset + 1, with_bodies=False, fail_on_loss=False)
        return columns.stored_ms[0] if len(columns) else None

    def _ends_of(self, queues: list[MessageQueue]) -> Ends:
        found: Ends = self._reader.max_offsets(queues)
        silent: dict[str, BrokerUnreachable] = {}
        for queue in queues:
            if queue in found or queue.broker in silent:
                continue
            try:
                found[queue] = self._reader.max_offset(queue)
            except BrokerUnreachable as error:
                silent[queue.broker] = error
        now = time.monotonic()
        before, self._silent = self._silent, {broker: self._silent.get(broker, now) for broker in silent}
        if silent and not found:
            raise next(iter(silent.values()))
        for broker in sorted(silent.keys() - before.keys()):
            warn(f"{silent[broker]}; its queues wait until it is back")
        return found

    def mirror(self, group: str, offsets: Mapping[MessageQueue, int]) -> Ends:
        """Store a group's offsets at the brokers; answers those that were stored. A broker that is down is named."""
        at_once = self._reader.commits(group, offsets)
        stored: Ends = {queue: offset for queue, offset in offsets.items() if queue in at_once}
        for queue, offset in offsets.items():
            if queue in at_once:
                continue
            try:
                self._reader.commit(group, queue, offset)
            except FrameworkError as error:
                warn(f"offset of group {group} not mirrored: {error}")
            else:
                stored[queue] = offset
        self._shown |= show_group(self._reader, group, stored.keys() - self._shown)
        return stored

    def close(self) -> None:
        self._reader.close()


def resolved(reader: Reader, queue: MessageQueue, offset: int) -> int:
    """The offset that is meant, by EARLIEST and LATEST too."""
    if offset == EARLIEST:
        return reader.min_offset(queue)
    return reader.max_offset(queue) if offset == LATEST else offset


def written(when_ms: int) -> str:
    return f"{datetime.fromtimestamp(when_ms / 1000, UTC):%Y-%m-%dT%H:%M:%S}Z"


def show_group(reader: Reader, group: str, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
    """Have `mqadmin consumerProgress -g` find a group that has no member; answers the queues, also if that failed."""
    asked = set(queues)
    for topic in sorted({queue.topic for queue in asked if not queue.topic.startswith(RETRY_PREFIX)}):
        try:
            reader.make_retry_topic(group, {queue.broker for queue in asked if queue.topic == topic}, topic)
        except FrameworkError as error:
            warn(f"mqadmin consumerProgress -g {group} finds nothing, since the group has no retry topic: {error}")
    return asked


def warn(text: str) -> None:
    """Into the log of the process that Spark runs us in."""
    print(f"framework_spark: {plain(text)}", file=sys.stderr, flush=True)  # noqa: T201  # Spark keeps stderr as the log


class Outages:
    """Which brokers a query waits for, and since when: says once that it waits, until `brokerWait` is over."""

    def __init__(self, wait_ms: int) -> None:
        self._wait_ms = wait_ms
        self.since: dict[str, float] = {}
        """Broker, or EVERYONE -> since when, in monotonic seconds."""

    def waits_for(self, broker: str, reason: str) -> bool:
        """Whether there is time left for a broker that is away."""
        now = time.monotonic()
        if broker not in self.since and self._wait_ms:
            warn(f"{reason}; waiting for {self._wait_ms / 1000:g} s, as brokerWait says")
        return (now - self.since.setdefault(broker, now)) * 1000 < self._wait_ms

    def is_over(self, broker: str = EVERYONE) -> None:
        self.since.pop(broker, None)

    def outlast(self, work: Callable[[], T]) -> T:
        """What it answers; again while a broker is away, until there is no time left."""
        while True:
            try:
                found = work()
            except BrokerUnreachable as error:
                if not self.waits_for(EVERYONE, str(error)):
                    raise
                time.sleep(PAUSE_SECONDS)
            else:
                self.is_over()
                return found
