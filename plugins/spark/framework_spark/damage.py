"""Damage: what becomes of messages that are damaged or cannot be opened, as the option `damaged` says.

They fail the task, are left out with a line in the log, or are rows whose column `error` says what is wrong. Without
the option `failOnDataLoss` decides, as `framework.reading` does it.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from framework_spark.options import COLUMN, FAIL, SKIP, SourceOptions
from framework_spark.rows import ERROR
from framework_spark.survey import warn

NAME = "error"
DAMAGED_REMEDY = "option damaged=column makes a damaged message a row with its error, damaged=skip leaves it out"


class Damage:
    """One task's. `shape` is what is built, `of` makes of it what Spark asked for."""

    def __init__(self, options: SourceOptions, shape: pa.Schema) -> None:
        self._damaged, self._wanted = options.columns.damaged, shape
        if self._damaged == SKIP:
            shape = shape.append(pa.field(ERROR, pa.string()))
        elif self._damaged == COLUMN and NAME in shape.names:
            at = shape.get_field_index(NAME)
            shape = shape.set(at, pa.field(ERROR, shape.field(at).type))
        self.shape = shape
        self.is_kept = self._damaged in {SKIP, COLUMN}
        self.is_fatal = self._damaged == FAIL or (self._damaged == "" and options.fail_on_data_loss)
        self.said = f"damaged={self._damaged}" if self.is_kept and options.fail_on_data_loss else "failOnDataLoss=false"
        # Whether a body is sound is seen by reading it.
        self.with_bodies = options.include_body and bool({"body", ERROR} & {*shape.names})

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self._damaged == SKIP:
            batch = self._sound(batch)
        if batch.schema.names == self._wanted.names:
            return batch
        return pa.RecordBatch.from_arrays(batch.columns[: len(self._wanted)], schema=self._wanted)

    def _sound(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        errors = batch.column(ERROR)
        if errors.null_count == len(errors):
            return batch
        reasons = errors.drop_null()
        more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
        warn(f"{reasons[0].as_py()}{more}; left out, as damaged=skip says")
        return batch.filter(pc.is_null(errors))
