"""The source: what a batch or a trigger reads, and the reading itself.

Offsets in a checkpoint are the truth. A group, where one is named, gets a copy of them for `mqadmin consumerProgress`:
never ahead of the checkpoint, forward only within a run, and from the checkpoint again when a query starts. Spark asks
for what is new with the offsets that are done, also when nothing is, which is why the last batch is mirrored as well
(its own `commit` never comes for that one).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from framework.errors import BrokerUnreachable, FrameworkError, ProtocolError
from framework.model.queue import MessageQueue
from framework.reading import Head, OffsetsGone
from framework_spark.conditions import Where
from framework_spark.counting import Totals, counted
from framework_spark.damage import DAMAGED_REMEDY, Damage
from framework_spark.kept import lent
from framework_spark.offsets import Lasts, Offsets, Range, flat, lasts_of, limited, nested, split, with_lasts
from framework_spark.options import SourceOptions
from framework_spark.packed import Packed
from framework_spark.reports import said
from framework_spark.schema import check_schema, schema_of
from framework_spark.survey import EVERYONE, DataLost, Ends, Outages, Survey, warn, written

_STORED = "storeTime"


class Piece(InputPartition):
    """One task's range."""

    def __init__(self, piece: Range) -> None:
        super().__init__(tuple(piece))
        self.piece = piece


def read_piece(
    options: SourceOptions, schema: StructType, partition: InputPartition, totals: Totals | None = None
) -> Iterator[pa.RecordBatch]:
    """On an executor: the range as record batches, pulled over a connection that this process keeps."""
    if not isinstance(partition, Piece):  # a batch of no piece has one task, which Spark makes up
        assert partition.value is None, f"not a partition of ours: {partition!r}"
        return
    shape = to_arrow_schema(check_schema(schema, schema_of(options.columns)), timezone="UTC")
    damage = Damage(options, shape)
    timed = Timed(options.where, damage.shape)
    queue, begin, end = partition.piece
    settings = replace(options.settings, patience_ms=options.broker_wait_ms)
    with lent(settings) as reader, counted(reader.counts, totals):
        try:
            for columns in reader.read(
                queue,
                begin,
                end,
                wanted=options.wanted,
                with_bodies=damage.with_bodies,
                fail_on_loss=options.fail_on_data_loss,
                fail_on_damage=damage.is_fatal,
                keep_damaged=damage.is_kept,
                columns=Packed,
            ):
                assert isinstance(columns, Packed), "as it was asked for"
                for batch in map(damage.of, map(timed.of, columns.batches(timed.shape))):
                    yield batch if shape.names == schema.names else batch.rename_columns(schema.names)
                damage.note(columns.passed_over, f"going on, as {damage.said} says")
        except ProtocolError as error:
            raise ProtocolError(f"{error.reason}; {DAMAGED_REMEDY}", peer=queue.broker) from error
        except OffsetsGone as error:
            if options.fail_on_data_loss:
                raise DataLost(error) from error
            damage.note([str(error)], "going on, as failOnDataLoss=false says")
        finally:
            reader.counts.passed_over += damage.count


class Timed:
    """Leaves out what was stored before or after the times that are wanted: a broker's search finds about where."""

    def __init__(self, where: Where, shape: pa.Schema) -> None:
        self._where, self._names = where, shape.names
        is_added = where.is_timed and _STORED not in shape.names
        self.shape = shape.append(pa.field(_STORED, pa.timestamp("us", "UTC"))) if is_added else shape
        """What is built; `of` drops what nobody asked for."""

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        where = self._where
        if not where.is_timed:
            return batch
        stored = batch.column(_STORED).cast(pa.int64())
        if where.since_ms is not None:
            batch = batch.filter(pc.greater_equal(stored, where.since_ms * 1000))
            stored = batch.column(_STORED).cast(pa.int64())
        if where.until_ms is not None:
            batch = batch.filter(pc.less(stored, where.until_ms * 1000))
        return batch if batch.schema.names == self._names else batch.select(self._names)


def _pieces(options: SourceOptions, ranges: list[Range]) -> list[InputPartition]:
    cut = split(ranges, pieces_min=options.min_partitions, records_max=options.max_records_per_partition)
    return [Piece(piece) for piece in cut]


class BatchReader(DataSourceReader):
    """`spark.read`: everything between two bounds, settled once, when the query is planned."""

    def __init__(self, options: SourceOptions, schema: StructType, totals: Totals | None = None) -> None:
        self._options, self._schema, self._totals = options, schema, totals

    def partitions(self) -> list[InputPartition]:
        survey = Survey(self._options)

        def ranges() -> list[Range]:
            begins, ends = survey.bounds()
            return [Range(queue, *survey.within(queue, begin, ends[queue])) for queue, begin in begins.items()]

        try:
            return _pieces(self._options, Outages(self._options.broker_wait_ms).outlast(ranges))
        finally:
            survey.close()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_piece(self._options, self._schema, partition, self._totals)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """`spark.readStream`: one instance a query on the driver, and copies of it, without state, on executors."""

    def __init__(self, options: SourceOptions, schema: StructType, totals: Totals | None = None) -> None:
        self._options, self._schema, self._totals = options, schema, totals
        self._planned: Ends = {}
        """Up to where the newest batch reads."""
        self._survey: Survey | None = None
        self._target: Ends | None = None
        """Where a query with Trigger.AvailableNow ends."""
        self._firsts: Ends = {}
        """Where queues begin that came while the query ran."""
        self._mirrored: Ends | None = None
        self._warned: set[str] = set()
        self._outages = Outages(options.broker_wait_ms)
        self._gone: set[MessageQueue] = set()
        """Queues that are in no route, which was said."""
        self._has_begun = False
        self._last_batch_at = time.monotonic()

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options, "_schema": self._schema, "_totals": self._totals}

    @property
    def _here(self) -> Survey:
        if self._survey is None:
            self._survey = Survey(self._options)
        return self._survey

    # Offsets

    def initialOffset(self) -> Offsets:  # noqa: N802  # Spark's names, here and below
        def begins() -> Ends:
            queues = self._here.queues(must_exist=True)
            return self._here.at("startingOffsets", self._options.starting, queues)

        return nested(self._outages.outlast(begins))

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._outages.outlast(lambda: self._everything({}))

    def _everything(self, done: Ends) -> Ends:
        """The ends of all queues, those that are done among them; BrokerUnreachable where one's broker is away."""
        self._here.queues(fresh=True)
        ends = self._here.ends()
        absent = {queue for queue in done.keys() - ends.keys() if self._is_wanted(queue)}
        away = {queue for queue in absent if not self._here.is_registered(queue.broker)}
        if absent - away:
            away |= absent & set(self._here.queues(fresh=True))  # brokers come back with their topics
        for queue in away:
            raise BrokerUnreachable(f"{queue}: broker {queue.broker} is away")
        return ends

    def _is_wanted(self, queue: MessageQueue) -> bool:
        return self._options.where.admits(queue) and self._here.names(queue.topic)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.min_offsets_per_trigger is not None:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:  # noqa: N802
        """Up to where the next batch reads; `start` where there is none yet. What is before `start` is done."""
        done = flat(start)
        self._mirror(done, is_start=self._mirrored is None)
        if self._target is not None and not self._has_begun and done.keys() - self._target.keys():
            # A broker was away when the target was set. Offsets that stay where they are would look like success.
            self._target = self._outages.outlast(lambda: self._everything(done))
        ends = self._following(done, lasts_of(start))
        begins = {queue: done[queue] if queue in done else self._first(queue) for queue in ends}
        waiting = sum(max(end - begins[queue], 0) for queue, end in ends.items())
        self._planned = begins
        if not isinstance(limit, ReadAllAvailable) and self._target is None and self._is_too_little(waiting):
            return start
        if isinstance(limit, ReadMaxRows):
            ends = limited(begins, ends, limit.max_rows)
        if waiting:
            self._last_batch_at = time.monotonic()
        self._planned = ends
        # A new queue without messages is no reason for a batch.
        ends = {queue: end for queue, end in ends.items() if queue in done or end > begins[queue]}
        return start if ends == done else self._with_lasts(ends, done, lasts_of(start))

    def _with_lasts(self, ends: Ends, done: Ends, lasts: Lasts) -> Offsets:
        """The ends, and beside them of each queue the last message that is read up to there."""
        stay = {queue: last for queue, last in lasts.items() if queue in ends and ends[queue] == done.get(queue)}
        moved = {queue: end - 1 for queue, end in ends.items() if end > 0 and end != done.get(queue)}
        return with_lasts(ends, {**stay, **self._here.heads(moved)})

    def _first(self, queue: MessageQueue) -> int:
        """Where a queue begins that no checkpoint has; asked once, so that what retention takes then is missed."""
        if queue not in self._firsts:
            self._firsts[queue] = self._here.first(queue)
        return self._firsts[queue]

    def _is_too_little(self, waiting: int) -> bool:
        least = self._options.min_offsets_per_trigger
        if least is None or waiting >= least:
            return False
        return (time.monotonic() - self._last_batch_at) * 1000 < self._options.max_trigger_delay_ms

    def _following(self, done: Ends, lasts: Lasts) -> Ends:
        """The ends of all queues, never before what is done but where a queue has become shorter."""
        try:
            ends = self._here.ends() if self._target is None else dict(self._target)
            known, away = self._known(done)
            for queue in ends.keys() - done.keys():
                self._first(queue)
        except BrokerUnreachable as error:
            if not self._outages.waits_for(EVERYONE, str(error)):
                raise
            return {**done, **(self._target or {})}  # nothing is new; what a target names, its tasks wait for
        self._outages.is_over()
        lost = [] if self._has_begun else self._taken(done, ends)
        anew = set()
        for queue, was, now in self._made_anew(done, ends, lasts):
            anew.add(queue)
            ends[queue] = self._here.begin(queue)
            then, since = written(was[0]), written(now.stored_ms)
            lost.append(
                f"{queue} was made anew: its message at offset {done[queue] - 1} was stored at {since}, and the one "
                f"that was read there at {then}"
            )
        for queue, offset in done.items():
            if not self._options.where.admits(queue):
                ends[queue] = offset  # an earlier run of the query was not told to leave it out
            elif not self._here.names(queue.topic):
                lost.append(f"{queue} is in the checkpoint at offset {offset}, and the options do not name its topic")
                ends[queue] = offset
            elif queue not in known and queue.broker in away:
                ends.setdefault(queue, offset)
            elif queue not in known:
                lost.append(f"{queue} is in the checkpoint at offset {offset} and in no route any more")
                ends[queue] = offset
            elif queue not in ends:
                ends[queue] = offset  # its broker does not answer now
            elif ends[queue] < offset and queue not in anew:
                lost.append(f"{queue} ends at offset {ends[queue]}, and the checkpoint is at {offset}")
        self._lose(lost)
        self._gone = {queue for queue in done.keys() - known if queue.broker not in away}
        self._has_begun = True
        return ends

    def _known(self, done: Ends) -> tuple[set[MessageQueue], set[str]]:
        """The queues that are in a route, and the brokers that are waited for since others are in none."""
        known = set(self._here.queues())
        absent = {queue.broker for queue in done.keys() - known - self._gone if self._is_wanted(queue)}
        away = {broker for broker in absent if self._is_away(broker)}
        if absent - away:
            # Brokers come back with their topics: what was known of those a moment ago says nothing any more.
            known = set(self._here.queues(fresh=True))
        return known, away

    def _made_anew(self, done: Ends, ends: Ends, lasts: Lasts) -> Iterator[tuple[MessageQueue, tuple[int, ...], Head]]:
        """Queues that have another message now where the last one was read: they were deleted, and grew again.

        All are looked at when a query starts, then those that have grown.
        """
        least = -1 if not self._has_begun else 0
        places = {
            queue: done[queue] - 1
            for queue in lasts
            if queue in ends and queue in done and ends[queue] - done[queue] > least
        }
        for queue, head in self._here.heads(places).items():
            if tuple(head) != lasts[queue]:
                yield queue, lasts[queue], head

    def _is_away(self, broker: str) -> bool:
        """Whether the broker of a queue that is in no route is waited for: one that restarts is not registered."""
        if self._here.is_registered(broker):
            self._outages.is_over(broker)
            return False
        return self._outages.waits_for(broker, f"broker {broker} is not registered at the name servers")

    def _taken(self, done: Ends, ends: Ends) -> list[str]:
        """What retention took since the run before; asked once, so that all queues are named and not the first."""
        found = []
        for queue, offset in done.items():
            if offset < ends.get(queue, 0) and self._options.where.admits(queue):
                with suppress(FrameworkError):
                    low = self._here.begin(queue)
                    if offset < low:
                        found.append(str(OffsetsGone(queue, offset, low)))
        return found

    def _lose(self, reasons: list[str]) -> None:
        """Data loss, named queue by queue."""
        if reasons and self._options.fail_on_data_loss:
            raise DataLost("; ".join(reasons))
        for reason in reasons:
            if reason not in self._warned:
                self._warned.add(reason)
                warn(f"{reason}; going on, as failOnDataLoss=false says")

    def reportLatestOffset(self) -> Offsets | None:  # noqa: N802
        """For the query's progress: this less the end offset is the lag. No checkpoint has it, so more may be said."""
        ends = self._here.recent_ends()
        planned = self._planned
        behind = {queue: ends[queue] - begin for queue, begin in planned.items() if ends.get(queue, 0) > begin}
        seconds = self._here.seconds_since({queue: (count, planned[queue]) for queue, count in behind.items()})
        return nested(ends) | said(behind, seconds, self._here.away())

    # Reading

    def partitions(self, start: Offsets, end: Offsets) -> list[InputPartition]:
        begins = flat(start)
        ranges = []
        for queue, upto in flat(end).items():
            if (begin := begins.get(queue)) is None:
                begin = self._first(queue) if upto else 0
            ranges.append(Range(queue, begin, upto))
        return _pieces(self._options, ranges)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_piece(self._options, self._schema, partition, self._totals)

    # Progress

    def commit(self, end: Offsets) -> None:
        self._mirror(flat(end), is_start=False)

    def _mirror(self, done: Ends, *, is_start: bool) -> None:
        """Copy what is done to the group at the brokers."""
        if not self._options.group:
            return
        before = self._mirrored or {}
        news = {queue: offset for queue, offset in done.items() if is_start or offset > before.get(queue, -1)}
        self._mirrored = {**before, **(self._here.mirror(self._options.group, news) if news else {})}

    def stop(self) -> None:
        if self._survey is not None:
            self._survey.close()
            self._survey = None


class MisusedStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Of options that cannot work: it raises when Spark asks where to begin. Spark 4.3 stops a reader also where making
    it failed, so what was raised there ends in an UnboundLocalError.
    """

    def __init__(self, error: FrameworkError) -> None:
        self._error = error

    def initialOffset(self) -> Offsets:  # noqa: N802
        raise self._error

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:  # noqa: N802
        raise self._error

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        raise self._error

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        raise self._error
