"""`read` and `read_stream` in a session: the rows of Spark's own filter, and frames that do not disturb each other."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import framework_spark
import pytest
from framework_spark.conditions import Where, parts_of
from framework_spark.options import NO_PUSHDOWN
from framework_spark.schema import SCHEMA
from pyspark.sql.types import StructType

from framework import Message
from framework.errors import ConfigurationError
from framework.model.queue import MessageQueue
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
        "to_json(struct(*)) like '%c7%' and queueId = 1",
        "identifier('key') = 'k2' and offset < 30",
    ],
)
def test_rows_are_those_of_spark_s_own_filter(frame: Callable[..., Any], where: str) -> None:
    columns = ["queueId", "offset", "tag"]

    wanted = frame().where(where).select(*columns).collect()

    assert sorted(wanted) == sorted(frame(columns=columns, where=where).collect())


_SIGNS = ("=", "<>", "<", ">=")
_NUMBERS = (
    "5",
    "-5",
    "- 5",
    "05",
    "5L",
    "5.0",
    "5.",
    "5e0",
    "5BD",
    "X'05'",
    "'5'",
    "true",
    "null",
    "(5)",
    "9" * 18,
    "9" * 30,
)
_TEXTS = (
    "'red'", "'it''s'", "'it\\'s'", "r'red'", "'re' 'd'", '"red"', "x'726564'", "'r\u00e9d'", "'Red'", "' red'", "'*'",
    "''", "'x and y'", "'-- x'", "'a||b'", "'${spark.app.name}'", "'\U0001f600'", "timestamp'2026-01-31'",
    "date'2026-01-31'", "'red' collate utf8_lcase",
)  # fmt: skip
_TIMES = (
    "2026-01-31", "2026-01-31 12:00", "2026-01-31T12:00:00Z", "2026-01-31 12:00:00 +01:00", "2026-01-31 12:00:00.0005",
    "2026-10-25 02:30:00", "2026-03-29 02:30:00", "2026-03-29 03:00:00", "2026-01-31 12:00:00+18:00", "2026-1-31",
    "2026-01-31 12", "2026-01-31 12:00:00 Europe/Berlin", "9999-12-31 23:59:59-17:00", "1900-01-01", "1769860800",
)  # fmt: skip


def _strange() -> list[str]:
    """Conditions of every kind with every literal; some of them Spark refuses."""
    found = [f"{column} {sign} {each}" for column in ("offset", "QueueId") for sign in _SIGNS for each in _NUMBERS]
    found += [f"{each} < `offset`" for each in _NUMBERS] + [f"offset between {each} and 7" for each in _NUMBERS]
    found += [f"queueId in ({each}, 1)" for each in _NUMBERS]
    found += [f"{column} {sign} {each}" for column in ("tag", "broker") for sign in _SIGNS for each in _TEXTS]
    found += [f"{each} = tag" for each in _TEXTS] + [f"tag in ({each}, 'blue')" for each in _TEXTS]
    found += [f"storeTime {sign} '{each}'" for sign in _SIGNS for each in _TIMES]
    found += [f"storeTime < {kind}'{each}'" for kind in ("timestamp", "timestamp_ntz", "date") for each in _TIMES]
    return [*found, *(f"not {each}" for each in found[::7]), *(f"({each})" for each in found[::5])]


@pytest.mark.parametrize(
    "settings",
    [
        {"timeZone": "UTC", "ansi": "true", "timestampType": "TIMESTAMP_LTZ"},
        {"timeZone": "Europe/Berlin", "ansi": "false", "timestampType": "TIMESTAMP_NTZ"},
    ],
    ids=lambda settings: settings["timeZone"],
)
def test_what_the_source_obeys_means_what_spark_means(spark: Any, settings: dict[str, str]) -> None:
    """All conditions at once, over rows that need no broker; in a session of each kind."""
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", settings["timeZone"])
    session.conf.set("spark.sql.ansi.enabled", settings["ansi"])
    session.conf.set("spark.sql.timestampType", settings["timestampType"])
    tags = [
        "red",
        "blue",
        "Red",
        " red",
        "r\u00e9d",
        "it's",
        "x and y",
        "*",
        "tests",
        "${spark.app.name}",
        "\U0001f600",
        None,
    ]
    first = datetime(2026, 1, 31, 11, tzinfo=UTC)
    times = [first + timedelta(minutes=30 * at) for at in range(4)]
    times += [
        datetime(2026, month, day, hour, 30, tzinfo=UTC) for month, day in ((3, 29), (10, 25)) for hour in range(4)
    ]
    rows = [(("broker-a", "red")[at % 2], at % 3, at, tags[at], times[at]) for at in range(len(tags))]
    columns = ("broker", "queueId", "offset", "tag", "storeTime")
    frame = session.createDataFrame(rows, StructType([SCHEMA[name] for name in columns]))
    parts = {text: parts_of(text, ZoneInfo(settings["timeZone"])) for text in _strange()}
    obeyed = {text: found.where for text, found in parts.items() if not found.rest}

    assert 150 < len(obeyed) < len(parts) - 150
    said = frame.selectExpr(*(f"{text} as `{at}`" for at, text in enumerate(obeyed))).collect()
    for at, (text, where) in enumerate(obeyed.items()):
        wanted = [row for row, holds in zip(rows, said, strict=True) if holds[at]]
        assert wanted == [row for row in rows if _admits(where, row)], text


def _admits(where: Where, row: tuple[Any, ...]) -> bool:
    broker, number, offset, tag, stored = row
    ms = int(stored.timestamp() * 1000)
    return (
        where.admits(MessageQueue("told", broker, number))
        and where.begin <= offset < where.end
        and (where.since_ms is None or where.since_ms <= ms)
        and (where.until_ms is None or ms < where.until_ms)
        and (where.tags is None or tag in where.tags)
    )


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

    def loaded(schema: str = "", **options: str) -> Any:
        reader = spark.read.format("rocketmq").option("nameServers", box.address)
        reader = reader.schema(schema) if schema else reader
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
        "schema": (loaded("tag string"), 100),
        "single": (loaded(propertyColumns="color", properties="false", where="offset = 7").where("color = 'c7'"), 2),
    }  # fmt: skip
    for name, (each, _) in frames.items():
        each.createOrReplaceTempView(f"way_{name}")
    names = [*frames, "everything"]
    counted = ", ".join(f"(select count(*) from way_{name})" for name in names)

    assert [frames[name][1] for name in names] == list(spark.sql(f"select {counted}").first())
    joined = frames["everything"][0].join(frames["read"][0], "offset").where("queueId = 0")
    assert 5 == joined.count(), "one is narrow, and the other one is not"


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


def test_spark_still_gives_wrong_rows_to_a_source_that_takes_its_filters(spark: Any) -> None:
    """When this fails, Spark has mended it, and `pushdown=true` may be had from that release on."""
    from pyspark.sql.datasource import DataSource, DataSourceReader, GreaterThanOrEqual, InputPartition
    from pyspark.sql.types import LongType, StructField

    class Reader(DataSourceReader):
        least = 0

        def pushFilters(self, filters: Any) -> Any:  # noqa: N802  # Spark's name
            for each in filters:
                if isinstance(each, GreaterThanOrEqual):
                    self.least = each.value
                else:
                    yield each

        def partitions(self) -> list[InputPartition]:
            return [InputPartition(self.least)]

        def read(self, partition: InputPartition) -> Any:
            yield from ((number,) for number in range(partition.value, 100))

    class Numbers(DataSource):
        @classmethod
        def name(cls) -> str:
            return "numbers"

        def schema(self) -> StructType:
            return StructType([StructField("number", LongType())])

        def reader(self, schema: StructType) -> Reader:
            return Reader()

    session = spark.newSession()
    session.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    session.dataSource.register(Numbers)
    whole = session.read.format("numbers").load()
    top = whole.where("number >= 90")

    assert [100, 10, 10] == [whole.count(), top.count(), whole.count()], "right were 100, 10, 100"
    assert 20 == whole.union(top).count(), "right were 110"


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
        ({"where": object()}, "read(where=...): write a text, not object"),
        ({"columns": [object()]}, "read(columns=...): write names, not object"),
    ],
)
def test_a_mistake_is_named_before_anything_is_read(
    frame: Callable[..., Any], asked: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        frame(**asked)

    assert said in str(refused.value)
