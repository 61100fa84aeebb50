"""The source: what a batch or a trigger reads, and the reading itself.

Offsets in a checkpoint are the truth. A group, where one is named, gets a copy of them for `mqadmin consumerProgress`:
never ahead of the checkpoint, forward only within a run, and from the checkpoint again when a query starts. Spark asks
for what is new with the offsets that are done, also when nothing is, which is why the last batch is mirrored as well
(its own `commit` never comes for that one).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
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

from framework.reading import OffsetsGone
from framework_spark.kept import lent
from framework_spark.offsets import Range, flat, limited, nested, split
from framework_spark.options import Offsets, SourceOptions
from framework_spark.packed import Packed
from framework_spark.survey import DataLost, Ends, Survey, warn


class Piece(InputPartition):
    """One task's range."""

    def __init__(self, piece: Range) -> None:
        super().__init__(tuple(piece))
        self.piece = piece


def read_piece(options: SourceOptions, schema: StructType, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """On an executor: the range as record batches, pulled over a connection that this process keeps."""
    if not isinstance(partition, Piece):  # a batch of no piece has one task, which Spark makes up
        assert partition.value is None, f"not a partition of ours: {partition!r}"
        return
    shape = to_arrow_schema(schema, timezone="UTC")
    queue, begin, end = partition.piece
    with lent(options.settings) as reader:
        try:
            for columns in reader.read(
                queue,
                begin,
                end,
                wanted=options.wanted,
                with_bodies=options.include_body and "body" in shape.names,
                fail_on_loss=options.fail_on_data_loss,
                columns=Packed,
            ):
                assert isinstance(columns, Packed), "as it was asked for"
                yield from columns.batches(shape)
                if columns.passed_over:
                    warn(f"{_some(columns.passed_over)}; going on, as failOnDataLoss=false says")
        except OffsetsGone as error:
            raise DataLost(error) from error


def _some(reasons: list[str]) -> str:
    more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
    return f"{reasons[0]}{more}"


def _pieces(options: SourceOptions, ranges: list[Range]) -> list[InputPartition]:
    cut = split(ranges, pieces_min=options.min_partitions, records_max=options.max_records_per_partition)
    return [Piece(piece) for piece in cut]


class BatchReader(DataSourceReader):
    """`spark.read`: everything between two bounds, settled once, when the query is planned."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options, self._schema = options, schema

    def partitions(self) -> list[InputPartition]:
        survey = Survey(self._options)
        try:
            begins, ends = survey.bounds()
        finally:
            survey.close()
        return _pieces(self._options, [Range(queue, begin, ends[queue]) for queue, begin in begins.items()])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_piece(self._options, self._schema, partition)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """`spark.readStream`: one instance a query on the driver, and copies of it, without state, on executors."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options, self._schema = options, schema
        self._survey: Survey | None = None
        self._target: Ends | None = None
        """Where a query with Trigger.AvailableNow ends."""
        self._mirrored: Ends | None = None
        self._warned: set[str] = set()
        self._last_batch_at = time.monotonic()

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options, "_schema": self._schema}

    @property
    def _here(self) -> Survey:
        if self._survey is None:
            self._survey = Survey(self._options)
        return self._survey

    # Offsets

    def initialOffset(self) -> Offsets:  # noqa: N802  # Spark's names, here and below
        queues = self._here.queues(fresh=True)
        return nested(self._here.at("startingOffsets", self._options.starting, queues))

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._here.queues(fresh=True)
        self._target = self._here.ends()

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
        ends = self._following(done)
        # A queue that is new begins where it begins; it is not in a checkpoint yet.
        begins = {queue: done.get(queue, 0) for queue in ends}
        waiting = sum(max(end - begins[queue], 0) for queue, end in ends.items())
        if not isinstance(limit, ReadAllAvailable) and self._target is None and self._is_too_little(waiting):
            return start
        if isinstance(limit, ReadMaxRows):
            ends = limited(begins, ends, limit.max_rows)
        if waiting:
            self._last_batch_at = time.monotonic()
        return nested(ends)

    def _is_too_little(self, waiting: int) -> bool:
        least = self._options.min_offsets_per_trigger
        if least is None or waiting >= least:
            return False
        return (time.monotonic() - self._last_batch_at) * 1000 < self._options.max_trigger_delay_ms

    def _following(self, done: Ends) -> Ends:
        """The ends of all queues, never before what is done but where a queue has become shorter."""
        ends = self._here.ends() if self._target is None else dict(self._target)
        known = set(self._here.queues())
        for queue, offset in done.items():
            if queue not in known:
                self._lost(f"{queue} is in the checkpoint at offset {offset} and in no route any more")
                ends[queue] = offset
            elif queue not in ends:
                ends[queue] = offset  # its broker does not answer now
            elif ends[queue] < offset:
                self._lost(f"{queue} ends at offset {ends[queue]}, and the checkpoint is at {offset}")
        return ends

    def _lost(self, reason: str) -> None:
        if self._options.fail_on_data_loss:
            raise DataLost(reason)
        if reason not in self._warned:
            self._warned.add(reason)
            warn(f"{reason}; going on, as failOnDataLoss=false says")

    def reportLatestOffset(self) -> Offsets | None:  # noqa: N802
        """For the query's progress: this less the end offset is the lag."""
        return nested(self._here.recent_ends())

    # Reading

    def partitions(self, start: Offsets, end: Offsets) -> list[InputPartition]:
        begins = flat(start)
        ranges = []
        for queue, upto in flat(end).items():
            begin = begins.get(queue)
            if begin is None:
                begin = self._here.begin(queue) if upto else 0
            ranges.append(Range(queue, begin, upto))
        return _pieces(self._options, ranges)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_piece(self._options, self._schema, partition)

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
