"""RocketMQ: the class behind `format("rocketmq")`. It picks the reader or writer and checks the options."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from framework_spark.options import sink_options, source_options
from framework_spark.schema import SCHEMA, check_schema
from framework_spark.sink import BatchWriter, StreamWriter
from framework_spark.source import BatchReader, StreamReader


class RocketMQ(DataSource):
    """Found by Spark through the module `pyspark_rocketmq`."""

    @classmethod
    def name(cls) -> str:
        return "rocketmq"

    def schema(self) -> StructType:
        return SCHEMA

    def reader(self, schema: StructType) -> BatchReader:
        return BatchReader(source_options(self.options, streaming=False), check_schema(schema))

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802
        return StreamReader(source_options(self.options, streaming=True), check_schema(schema))

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        return BatchWriter(sink_options(self.options), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802
        return StreamWriter(sink_options(self.options), schema)
