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

from framework.errors import ConfigurationError

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


def check_schema(given: StructType) -> StructType:
    """Some of our columns, with our types, or ConfigurationError: `.schema(...)` chooses columns, it casts nothing."""
    types = {field.name: field.dataType for field in SCHEMA.fields}
    for field in given.fields:
        if field.name not in types:
            raise ConfigurationError(f"schema: no column {field.name!r}; choose among {', '.join(types)}")
        if field.dataType != types[field.name]:
            raise ConfigurationError(
                f"schema: column {field.name} is {types[field.name].simpleString()}, "
                f"not {field.dataType.simpleString()}; cast it after reading"
            )
    return given
