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

from framework.errors import nearest
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
    """These columns as they are called here, or ConfigurationError: `.schema(...)` chooses some, in any case, as
    everywhere in Spark, and with our types: it casts nothing.
    """
    fields = {field.name.lower(): field for field in known.fields}
    found: dict[str, StructField] = {}
    for field in given.fields:
        ours = fields.get(field.name.lower())
        if ours is None:
            hint = nearest(field.name, known.names) or f"; choose among {', '.join(known.names)}"
            raise SparkMisused(f"schema: no column {field.name!r}{hint}; propertyColumns adds properties")
        if field.dataType != ours.dataType:
            raise SparkMisused(
                f"schema: column {ours.name} is {ours.dataType.simpleString()}, "
                f"not {field.dataType.simpleString()}; cast it after reading"
            )
        if ours.name in found:
            raise SparkMisused(f"schema: column {ours.name} is there twice; name it once")
        found[ours.name] = StructField(ours.name, ours.dataType, field.nullable)
    return StructType(list(found.values()))
