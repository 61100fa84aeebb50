"""Hints about columns that a query does not need: right in every shape of query, and none where all are needed."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from framework_spark import column_hints
from pyspark.sql.functions import col

from framework.errors import ConfigurationError

pytestmark = pytest.mark.xdist_group("spark")


def loaded(spark: Any, schema: str | None = None, **options: str) -> Any:
    """It is planned alone, so that no broker is needed."""
    reader = spark.read.format("rocketmq").options(nameServers="127.0.0.1:1", topic="orders", **options)
    return (reader if schema is None else reader.schema(schema)).load()


def viewed(query: str) -> Callable[[Any], Any]:
    def build(frame: Any) -> Any:
        frame.createOrReplaceTempView("needs")
        return frame.sparkSession.sql(query)

    return build


@pytest.mark.parametrize(
    ("build", "count", "schema"),
    [
        (lambda f: f.select("body"), 1, "body binary"),
        (lambda f: f.where("offset > 3 and tag = 'a'").select("body"), 3, "offset bigint, tag string, body binary"),
        (lambda f: f.groupBy().count(), 0, "offset bigint"),
        (lambda f: f.groupBy("tag").max("queueId"), 2, "queueId int, tag string"),
        (lambda f: f.drop("properties", "body").limit(3), 10, None),
        (lambda f: f.alias("a").join(f.alias("b"), "offset").select(col("a.body")), 2, "offset bigint, body binary"),
        (lambda f: f.select("tag").union(f.select("key")), 2, "key string, tag string"),
        (lambda f: f.orderBy("storeTime").select("key"), 2, "key string, storeTime timestamp"),
        (viewed("select tag from needs where offset = (select max(queueId) from needs)"), 3, None),
        (viewed("with a as (select * from needs) select upper(tag) t from a where body is null"), 2, None),
    ],
)
def test_a_query_that_needs_few_columns_is_told_which(
    spark: Any, build: Callable[[Any], Any], count: int, schema: str | None
) -> None:
    (hint,) = column_hints(build(loaded(spark)))

    assert hint.startswith(f"this query needs {count} of 12 columns: .schema(")
    said = hint.split('"')[1]
    assert schema in {said, None}
    assert [] == column_hints(build(loaded(spark, said))) or not count, "and with it the query needs all that is built"


@pytest.mark.parametrize(
    "build",
    [
        lambda f: f,
        lambda f: f.limit(3),
        lambda f: f.where("offset > 3"),
        lambda f: f.union(f.where("tag = 'a'")),
        lambda f: f.select("tag").crossJoin(f),
        lambda f: f.sparkSession.range(3),
        viewed("select * from needs where offset in (select offset from needs)"),
    ],
)
def test_a_query_that_needs_all_of_a_load_has_no_hint(spark: Any, build: Callable[[Any], Any]) -> None:
    assert [] == column_hints(build(loaded(spark)))


def test_each_load_has_a_hint_of_its_own(spark: Any) -> None:
    joined = loaded(spark).select("key", "body").join(loaded(spark, propertyColumns="a b").select("key", "a b"), "key")

    assert [
        'this query needs 2 of 12 columns: .schema("key string, body binary") builds no others',
        'this query needs 2 of 13 columns: .schema("key string, `a b` string") builds no others',
    ] == column_hints(joined)


def test_where_there_is_no_plan_to_look_at_it_says_so(spark: Any) -> None:
    stream = spark.readStream.format("rocketmq").options(nameServers="127.0.0.1:1", topic="orders").load()
    with pytest.raises(ConfigurationError, match="give it a batch query"):
        column_hints(stream)
    kind = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})
    with pytest.raises(ConfigurationError, match="a client of Spark Connect sees no plan"):
        column_hints(SimpleNamespace(sparkSession=kind()))  # type: ignore[arg-type]  # as far as it looks
