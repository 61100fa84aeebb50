"""Survey: which queues a query has now, and where they begin and end. It runs in the driver, and holds a reader.

It keeps a name server's answer for some seconds, so that a query of many small triggers does not ask for routes each
time. It decides what an unreachable broker means: no new messages, as long as another one answers.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Mapping

from framework.errors import BrokerUnreachable, ConfigurationError, FrameworkError
from framework.model.queue import MessageQueue
from framework.model.reserved import RETRY_PREFIX
from framework.reading import Reader
from framework_spark.options import EARLIEST, LATEST, Bound, SourceOptions

REFRESH_SECONDS = 5.0  # until a new queue, topic or broker is noticed; Kafka's source asks each trigger
RECENT_SECONDS = 0.5

Ends = dict[MessageQueue, int]


class DataLost(FrameworkError):
    """Messages that the query was to read are gone; said with the way to go on."""

    def __init__(self, reason: object) -> None:
        super().__init__(f"{reason}; option failOnDataLoss=false goes on without them")


class Survey:
    """Made in whichever process Spark asks; `close` leaves nothing open."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._reader = Reader(options.settings)
        self._queues: list[MessageQueue] = []
        self._asked_at: float | None = None
        self._silent: frozenset[str] = frozenset()
        self._ends: Ends = {}
        self._ends_at: float | None = None

    def queues(self, *, fresh: bool = False) -> list[MessageQueue]:
        """Every readable queue of the topics. ConfigurationError for a topic that was named and does not exist."""
        now = time.monotonic()
        if fresh or self._asked_at is None or now - self._asked_at >= REFRESH_SECONDS:
            self._queues = [queue for topic in self._topics() for queue in self._reader.queues(topic)]
            self._asked_at = now
            found = {queue.topic for queue in self._queues}
            # A group has a retry topic once something of it is to be tried again.
            missing = [each for each in self._options.topics if each not in found and not each.startswith(RETRY_PREFIX)]
            if missing and fresh:
                servers = ", ".join(self._options.settings.name_servers)
                raise ConfigurationError(f"topic {missing[0]}: no name server of {servers} knows it; create it first")
        return self._queues

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
            return self.ends()
        return dict(self._ends)

    def begin(self, queue: MessageQueue) -> int:
        return self._reader.min_offset(queue)

    def bounds(self) -> tuple[Ends, Ends]:
        """What a batch reads: where each queue's range begins, and where it ends."""
        queues = self.queues(fresh=True)
        begins = self.at("startingOffsets", self._options.starting, queues)
        ends = self.at("endingOffsets", self._options.ending, queues)
        for queue, begin in begins.items():
            if ends[queue] < begin and not self._options.starting.is_earliest:
                raise ConfigurationError(
                    f"{queue}: the range begins at offset {begin} and ends before it, at {ends[queue]}; swap the bounds"
                )
        return begins, ends

    def at(self, option: str, bound: Bound, queues: list[MessageQueue]) -> Ends:
        """The bound as offsets. What it names must exist; what it does not name is where `everywhere` says.

        An offset beyond the end of its queue is DataLost, or the end where `failOnDataLoss` is false.
        """
        named = {
            MessageQueue(topic, broker, int(number)): offset
            for topic, brokers in bound.queues.items()
            for broker, offsets in brokers.items()
            for number, offset in offsets.items()
        }
        strangers = sorted(set(named) - set(queues))
        if strangers:
            raise ConfigurationError(f"offsets of {strangers[0]}: there is no such queue among the {len(queues)} read")
        ends = self._reader.max_offsets(queue for queue, offset in named.items() if offset >= 0)
        for queue, offset in named.items():
            if offset >= 0 and offset > (end := ends[queue] if queue in ends else self._reader.max_offset(queue)):
                reason = f"{option}: {queue} ends at offset {end}, and the option says {offset}"
                if self._options.fail_on_data_loss:
                    raise DataLost(reason)
                warn(f"{reason}; going on at its end, as failOnDataLoss=false says")
                named[queue] = end
        return {queue: self._resolved(bound, queue, named.get(queue, bound.everywhere)) for queue in queues}

    def _resolved(self, bound: Bound, queue: MessageQueue, offset: int) -> int:
        if bound.timestamp_ms is not None:
            return self._reader.offset_at(queue, bound.timestamp_ms)
        if offset == EARLIEST:
            return self._reader.min_offset(queue)
        return self._reader.max_offset(queue) if offset == LATEST else offset

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
        if silent and not found:
            raise next(iter(silent.values()))
        for broker in sorted(silent.keys() - self._silent):
            warn(f"{silent[broker]}; its queues wait until it is back")
        self._silent = frozenset(silent)
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
        return stored

    def close(self) -> None:
        self._reader.close()


def warn(text: str) -> None:
    """Into the log of the process that Spark runs us in."""
    print(f"framework_spark: {text}", file=sys.stderr, flush=True)  # noqa: T201  # Spark keeps stderr as the log
