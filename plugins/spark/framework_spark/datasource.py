"""RocketMQ: the class behind `format("rocketmq")`. It picks the reader or writer and checks the options."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from framework.errors import FrameworkError
from framework_spark.counting import Totals
from framework_spark.options import column_options, sink_options, source_options
from framework_spark.schema import check_schema, schema_of
from framework_spark.sink import BatchWriter, StreamWriter
from framework_spark.source import BatchReader, MisusedStream, StreamReader


class RocketMQ(DataSource):
    """Found by Spark through the module `pyspark_rocketmq`."""

    totals: Totals | None = None
    """Where tasks say what they did; a driver that counts has a class of its own (`counting.py`)."""

    @classmethod
    def name(cls) -> str:
        return "rocketmq"

    def schema(self) -> StructType:
        return schema_of(column_options(self.options))

    def reader(self, schema: StructType) -> BatchReader:
        options = source_options(self.options, streaming=False)
        check_schema(schema, schema_of(options.columns))
        return BatchReader(options, schema, self.totals)

    def streamReader(self, schema: StructType) -> StreamReader | MisusedStream:  # noqa: N802
        try:
            options = source_options(self.options, streaming=True)
            check_schema(schema, schema_of(options.columns))
            return StreamReader(options, schema, self.totals)
        except FrameworkError as error:
            return MisusedStream(error)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        return BatchWriter(sink_options(self.options, streaming=False), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802
        return StreamWriter(sink_options(self.options, streaming=True), schema)
