"""Damage: what becomes of messages that are damaged or cannot be opened, as the option `damaged` says.

They fail the task, are left out with a line in the log, or are rows whose column `error` says what is wrong. Without
the option `failOnDataLoss` decides, as `framework.reading` does it.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from framework_spark.options import COLUMN, FAIL, SKIP, SourceOptions
from framework_spark.rows import ERROR
from framework_spark.survey import warn

NAME, OFFSET = "error", "offset"
NAMED_MAX = 100  # of one record batch, which has some thousand rows
DAMAGED_REMEDY = "option damaged=column makes a damaged message a row with its error, damaged=skip leaves it out"


class Damage:
    """One task's. `shape` is what is built, `of` makes of it what Spark asked for."""

    def __init__(self, options: SourceOptions, shape: pa.Schema) -> None:
        self._damaged, self._wanted = options.columns.damaged, shape
        if self._damaged == SKIP:
            more = [pa.field(ERROR, pa.string()), *([] if OFFSET in shape.names else [pa.field(OFFSET, pa.int64())])]
            shape = pa.schema([*shape, *more])
        elif self._damaged == COLUMN and NAME in shape.names:
            at = shape.get_field_index(NAME)
            shape = shape.set(at, pa.field(ERROR, shape.field(at).type))
        self.shape = shape
        self.count = 0
        """What did not fail the task: damaged messages, runs of offsets that are gone."""
        self.is_kept = self._damaged in {SKIP, COLUMN}
        self.is_fatal = self._damaged == FAIL or (self._damaged == "" and options.fail_on_data_loss)
        self.said = f"damaged={self._damaged}" if self.is_kept and options.fail_on_data_loss else "failOnDataLoss=false"
        # Whether a body is sound is seen by reading it.
        self.with_bodies = options.include_body and bool({"body", ERROR} & {*shape.names})

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self._damaged == SKIP:
            batch = self._sound(batch)
        elif ERROR in batch.schema.names:
            self.count += len(batch) - batch.column(ERROR).null_count
        if batch.schema.names == self._wanted.names:
            return batch
        return pa.RecordBatch.from_arrays(batch.columns[: len(self._wanted)], schema=self._wanted)

    def _sound(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        errors = batch.column(ERROR)
        if errors.null_count == len(errors):
            return batch
        is_sound = pc.is_null(errors)
        bad = batch.filter(pc.invert(is_sound))
        places = zip(bad.column(OFFSET).to_pylist(), bad.column(ERROR).to_pylist(), strict=True)
        self.note([f"offset {offset}: {reason}" for offset, reason in places], "left out, as damaged=skip says")
        return batch.filter(is_sound)

    def note(self, reasons: Sequence[str], outcome: str) -> None:
        """A line for each, with its place; of very many the first ones."""
        self.count += len(reasons)
        for reason in reasons[:NAMED_MAX]:
            warn(f"{reason}; {outcome}")
        if len(reasons) > NAMED_MAX:
            warn(f"{len(reasons) - NAMED_MAX} more; {outcome}")
