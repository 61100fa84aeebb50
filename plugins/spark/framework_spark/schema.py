"""The columns of the source, and which of them a reader may choose with `.schema(...)`."""

from __future__ import annotations

from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from framework_spark.mistakes import SparkMisused
from framework_spark.options import COLUMN, ColumnOptions

# Not from a DDL text: parsing one needs a JVM, which Python workers have none of.
SCHEMA = StructType(
    [
        StructField("topic", StringType()),
        StructField("broker", StringType()),
        StructField("queueId", IntegerType()),
        StructField("offset", LongType()),
        StructField("key", StringType()),
        StructField("tag", StringType()),
        StructField("body", BinaryType()),
        StructField("storeTime", TimestampType()),
        StructField("bornTime", TimestampType()),
        StructField("msgId", StringType()),
        StructField("reconsumeTimes", IntegerType()),
        StructField("properties", MapType(StringType(), StringType())),
    ]
)


def schema_of(columns: ColumnOptions) -> StructType:
    """All columns that there are: `properties` may be left out, single ones have columns of their own, and `error` is
    there where damaged messages are rows.
    """
    fields = [field for field in SCHEMA.fields if columns.has_properties or field.name != "properties"]
    if columns.damaged == COLUMN:
        fields.append(StructField("error", StringType()))
    taken = {field.name.lower() for field in (*SCHEMA.fields, *fields)}
    for name in columns.single:
        if name.lower() in taken:
            raise SparkMisused(f"option propertyColumns: {name!r} is a column already; name only properties")
    return StructType([*fields, *(StructField(name, StringType()) for name in columns.single)])


def check_schema(given: StructType, known: StructType = SCHEMA) -> StructType:
    """Some of these columns, with our types, or ConfigurationError: `.schema(...)` chooses them, it casts nothing."""
    types = {field.name: field.dataType for field in known.fields}
    for field in given.fields:
        if field.name not in types:
            raise SparkMisused(
                f"schema: no column {field.name!r}; choose among {', '.join(types)}; propertyColumns adds properties"
            )
        if field.dataType != types[field.name]:
            raise SparkMisused(
                f"schema: column {field.name} is {types[field.name].simpleString()}, "
                f"not {field.dataType.simpleString()}; cast it after reading"
            )
    return given
