"""Reading less: a frame of these columns and rows alone, made by names and a condition before Spark plans anything.

Spark 4.3 hands neither columns nor filters to a source in Python; `.schema(...)` and options reach it. Names become a
schema, and what the source can obey of a condition becomes its option `where`. The rest of it Spark filters. Each call
is a `load()` of its own, so that frames know nothing of each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from framework.errors import nearest
from framework_spark.conditions import Parts, parts_of
from framework_spark.mistakes import SparkMisused
from framework_spark.options import column_options
from framework_spark.survey import warn

if TYPE_CHECKING:
    from datetime import tzinfo

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def read(
    spark: SparkSession, columns: Sequence[str] | None = None, where: str | None = None, **options: Any
) -> DataFrame:
    """`spark.read.format("rocketmq")` of these columns and of the rows for which `where` holds.

    Conditions on `topic`, `broker`, `queueId`, `offset`, `storeTime` and `tag`, compared with literals and joined by
    AND, decide what is pulled. For the rest Spark reads the columns that it names, and filters; stderr says which.
    `options` are the source's.
    """
    return _frame(spark, spark.read, columns, where, options, streaming=False)


def read_stream(
    spark: SparkSession, columns: Sequence[str] | None = None, where: str | None = None, **options: Any
) -> DataFrame:
    """The same of `spark.readStream`. `topic`, `broker`, `queueId` and `tag` decide what is pulled."""
    return _frame(spark, spark.readStream, columns, where, options, streaming=True)


def _frame(
    spark: SparkSession, reader: Any, columns: Sequence[str] | None, where: str | None, options: dict[str, Any],
    *, streaming: bool,
) -> DataFrame:  # fmt: skip
    given = {name: _text(value) for name, value in options.items() if value is not None}
    names = {name.lower() for name in given}
    if where is not None and not isinstance(where, str):
        raise SparkMisused(
            f"read(where=...): write a text, not {type(where).__name__}; a Column is for the frame's where()"
        )
    if where is not None and "where" in names:
        raise SparkMisused("read: where is given twice; join the two by AND")
    known = _schema(given)
    wanted = _checked(columns, known)
    parts = Parts()
    if where is not None and where.strip():
        parts = parts_of(where, _zone(spark), streaming=streaming, tags=not names & {"tags", "sql"})
    needed = _with_those_of(known.names if parts.rest_may_name_all else parts.rest_names, wanted, known)
    frame: DataFrame = (
        reader.format("rocketmq")
        .options(**given, **({"where": " AND ".join(parts.obeyed)} if parts.obeyed else {}))
        .schema(needed)
        .load()
    )
    if parts.rest:
        warn(f"where: Spark filters {' AND '.join(parts.rest)}; the source reads {_said(parts)}")
        # As part of an AND, since Spark makes a boolean of a text there; and the whole as it was written.
        split = " AND ".join(["true", *(f"({part})" for part in parts.rest)])
        frame = frame.where(split if parts.obeyed else where or "")
    return frame if needed.names == wanted else frame.select(*map(_quoted, wanted))


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _said(parts: Parts) -> str:
    return f"only {' AND '.join(parts.obeyed)}" if parts.obeyed else "everything"


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _schema(given: dict[str, str]) -> StructType:
    from framework_spark.schema import schema_of  # a plugin that is only loaded needs no pyspark

    return schema_of(column_options(given))


def _checked(columns: Sequence[str] | None, known: StructType) -> list[str]:
    if columns is None:
        return list(known.names)
    if isinstance(columns, str):
        raise SparkMisused(f"read(columns={columns!r}): write a list, columns=[{columns!r}]")
    right = {name.lower(): name for name in known.names}
    if others := [type(name).__name__ for name in columns if not isinstance(name, str)]:
        raise SparkMisused(f"read(columns=...): write names, not {others[0]}")
    for name in columns:
        if name.lower() not in right:
            hint = nearest(name, known.names) or "; name a property in propertyColumns"
            raise SparkMisused(f"read(columns=...): no column {name!r}{hint}")
    if not columns or len({name.lower() for name in columns}) < len(columns):
        raise SparkMisused(f"read(columns={list(columns)}): name each column once, and at least one")
    return [right[name.lower()] for name in columns]


def _with_those_of(names: Iterable[str], wanted: list[str], known: StructType) -> StructType:
    from pyspark.sql.types import StructType

    asked = set(names)
    more = [name for name in known.names if name.lower() in asked and name not in wanted]
    return StructType([known[name] for name in (*wanted, *more)])


def _zone(spark: SparkSession) -> tzinfo | None:
    """In which the session's times without a zone are meant; None where Spark alone knows that zone."""
    try:
        return ZoneInfo(spark.conf.get("spark.sql.session.timeZone") or "")
    except (ZoneInfoNotFoundError, ValueError):
        return None
