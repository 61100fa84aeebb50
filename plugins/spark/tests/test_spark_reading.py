"""`read` and `read_stream` in a session: the rows of Spark's own filter, and frames that do not disturb each other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import framework_spark
import pytest
from framework_spark.options import NO_PUSHDOWN

from framework import Message
from framework.errors import ConfigurationError
from tests.reading.threads import ThreadBox

pytestmark = pytest.mark.xdist_group("spark")


@pytest.fixture(scope="module")
def filled(box: ThreadBox) -> str:
    topic = "spark-reading"
    for queue in range(2):
        messages = [
            Message(topic, f"m{at}", tags=("red", "blue")[at % 2], keys=[f"k{at % 5}"], properties={"color": f"c{at}"})
            for at in range(50)
        ]
        box.send(topic, messages, queue=queue, broker="broker-a")
    return topic


@pytest.fixture
def frame(spark: Any, box: ThreadBox, filled: str) -> Callable[..., Any]:
    def read(**asked: Any) -> Any:
        return framework_spark.read(spark, nameServers=box.address, topic=filled, **asked)

    return read


@pytest.mark.parametrize(
    "where",
    [
        "queueId = 1 and offset between 5 and 20",
        "offset >= 40 and tag = 'red'",
        "tag = 'red' and key = 'k2' and offset < 30",
        "tag = 'red' or offset = 3",
        "offset = 3 -- the fourth",
        "properties['color'] = 'c7' and queueId != 0",
        "storeTime >= '2026-01-01' and not tag <=> 'blue'",
        "storeTime < '2026-01-01'",
        "case when offset > 10 and tag = 'red' then queueId = 1 else false end and offset < 15",
    ],
)
def test_rows_are_those_of_spark_s_own_filter(frame: Callable[..., Any], where: str) -> None:
    columns = ["queueId", "offset", "tag"]

    wanted = frame().where(where).select(*columns).collect()

    assert sorted(wanted) == sorted(frame(columns=columns, where=where).collect())


def test_only_the_columns_that_are_named_are_there_in_their_order(frame: Callable[..., Any]) -> None:
    narrow = frame(columns=["body", "OFFSET"], where="key = 'k1' and queueId = 0")

    assert ["body", "offset"] == narrow.columns
    assert [(b"m1", 1), (b"m6", 6)] == [tuple(row) for row in narrow.collect()][:2]
    plan = narrow._jdf.queryExecution().optimizedPlan().toString()
    assert "properties" not in plan, "what nobody needs is not built"


def test_a_property_may_be_a_column(frame: Callable[..., Any]) -> None:
    rows = frame(columns=["color"], propertyColumns="color", where="offset = 7").collect()

    assert [("c7",), ("c7",)] == [tuple(row) for row in rows]


def test_no_two_frames_of_a_session_disturb_each_other(spark: Any, frame: Callable[..., Any]) -> None:
    """The queries that Spark 4.3 answers wrongly where a source takes filters from it."""
    whole, top, low = frame(), frame(where="offset >= 45"), frame(where="offset < 10")

    assert [100, 10, 100] == [whole.count(), top.count(), whole.count()]
    assert 110 == whole.union(top).count()
    assert 30 == top.union(low).count()
    for name, each in (("whole", whole), ("top", top), ("low", low)):
        each.createOrReplaceTempView(name)
    counts = spark.sql("select (select count(*) from top), (select count(*) from low), (select count(*) from whole)")
    assert (10, 20, 100) == tuple(counts.first())
    assert [10, 20, 100] == [each.count() for each in (top, low, whole)]


def test_frames_of_every_way_of_reading_do_not_disturb_each_other(
    spark: Any, box: ThreadBox, filled: str, frame: Callable[..., Any]
) -> None:
    """Each beside all others in one query, and the whole topic at its begin and its end."""

    def loaded(**options: str) -> Any:
        reader = spark.read.format("rocketmq").option("nameServers", box.address)
        return reader.options(**{"topic": filled, **options} if "assign" not in options else options).load()

    where = "queueId = 1 and offset >= 45"
    everything = loaded()
    frames = {
        "everything": (everything, 100),
        "filtered": (everything.where(where), 5),
        "read": (frame(where=where, columns=["offset"]), 5),
        "half": (frame(where="offset < 20 and length(body) = 2"), 20),
        "option": (loaded(where="offset between 5 and 20"), 32),
        "tags": (loaded(tags="red"), 50),
        "assign": (loaded(assign=f'{{"{filled}": [1]}}'), 50),
        "single": (loaded(propertyColumns="color", properties="false", where="offset = 7").where("color = 'c7'"), 2),
    }  # fmt: skip
    for name, (each, _) in frames.items():
        each.createOrReplaceTempView(f"way_{name}")
    names = [*frames, "everything"]
    counted = ", ".join(f"(select count(*) from way_{name})" for name in names)

    assert [frames[name][1] for name in names] == list(spark.sql(f"select {counted}").first())


def test_spark_s_own_filters_still_reach_no_source_in_python(frame: Callable[..., Any]) -> None:
    """When this fails, Spark has changed: see whether `pushdown=true` can be had now, and the table of wrong rows."""
    from pyspark.sql.datasource import DataSourceReader

    plan = frame().where("offset >= 45")._jdf.queryExecution().executedPlan().toString()

    assert "Filter" in plan
    assert hasattr(DataSourceReader, "pushFilters")
    assert not hasattr(DataSourceReader, "pushLimit"), "came with the fix, SPARK-58551"
    with pytest.raises(Exception, match="option pushdown=true: Spark"):
        frame(pushdown=True).count()
    assert "SPARK-58551" in NO_PUSHDOWN


def test_a_stream_reads_the_queues_and_tags_that_it_is_told(
    spark: Any, box: ThreadBox, filled: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    stream = framework_spark.read_stream(
        spark,
        columns=["queueId", "offset"],
        where="queueId = 1 and tag = 'red' and offset < 10",
        nameServers=box.address,
        topic=filled,
        startingOffsets="earliest",
    )
    query = (
        stream.writeStream.format("memory")
        .queryName("told")
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    try:
        assert query.awaitTermination(120)
    finally:
        query.stop()

    assert [(1, 0), (1, 2), (1, 4), (1, 6), (1, 8)] == sorted(
        tuple(row) for row in spark.sql("select * from told").collect()
    )
    assert (
        "where: Spark filters offset < 10; the source reads only queueid = 1 AND tag = 'red'" in capfd.readouterr().err
    )


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"columns": ["bodi"]}, "no column 'bodi'; did you mean 'body'?"),
        ({"columns": ["color"]}, "no column 'color'"),
        ({"columns": "body"}, "write a list, columns=['body']"),
        ({"columns": []}, "name each column once, and at least one"),
        ({"columns": ["body", "Body"]}, "name each column once"),
        ({"where": "offset = 1", "WHERE": "offset = 2"}, "where is given twice"),
    ],
)
def test_a_mistake_is_named_before_anything_is_read(
    frame: Callable[..., Any], asked: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        frame(**asked)

    assert said in str(refused.value)
