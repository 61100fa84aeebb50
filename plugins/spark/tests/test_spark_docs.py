"""The pages of docs/ about Spark: their examples run, and their tables name every option and column."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from framework_spark import options
from framework_spark.runner import SparkRunner
from framework_spark.schema import SCHEMA
from framework_spark.sink import TYPES

from framework import Message
from framework.model.outcome import DeadLetter
from framework.model.queue import MessageQueue
from framework.reading import Reader, ReaderSettings
from framework.testing import Harness
from tests.lacking import lacking
from tests.patience import wait_until
from tests.reading.tables import Given
from tests.reading.threads import ThreadBox, thread_box

ROOT = Path(__file__).parents[3]
TEXT = "".join((ROOT / "docs" / f"{name}.md").read_text() for name in ("spark", "spark-handlers", "spark-sink"))

# docs/streaming/structured-streaming-kafka-integration.md of Spark, its tables of options.
KAFKA_S = [
    "assign", "subscribe", "subscribePattern", "kafka.bootstrap.servers", "startingTimestamp",
    "startingOffsetsByTimestamp", "startingOffsets", "endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets",
    "failOnDataLoss", "kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs",
    "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "minPartitions", "maxRecordsPerPartition",
    "groupIdPrefix", "kafka.group.id", "includeHeaders", "startingOffsetsByTimestampStrategy",
    "kafka.auto.offset.reset", "spark.sql.streaming.kafka.useDeprecatedOffsetFetching", "spark.kafka.clusters.*",
    "spark.security.credentials.kafka.enabled", "spark.kafka.consumer.cache.*", "spark.kafka.producer.cache.*",
    "spark.kafka.consumer.fetchedData.cache.*", "kafka.partitioner.class", "timestampType", "value",
]  # fmt: skip

EXAMPLES = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
RUN_BY = {
    "PYSPARK_PYTHON": "_run_examples", "red =": "_run_examples", "import read\n": "_run_examples",
    "hints = ": "_run_examples",
    "paid.writeStream": "_run_examples", "def revenue": "_run_examples", "def tagged": "_run_examples",
    "def totals": "_run_examples", "createDataFrame": "_run_examples",
    "def ledger": "test_a_consumer_drops_rows_that_spark_repeated",
    "registry.avro": "tests/interop/test_spark_avro.py", "payload(": "_run_examples",
    "def merged": "tests/interop/test_spark_tables.py",
    "StatefulProcessor": "test_the_example_of_a_state_runs", "OffsetMirror": "test_the_mirror_s_example_runs",
    "ProgressListener": "_run_examples",
}  # fmt: skip
"""What a block has that no other has -> what runs it."""
HOWTO = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "howto" / "spark.md").read_text(), re.DOTALL)
(FIRST_LINE,) = re.findall(r"```python\n(.*?)```", (Path(__file__).parents[1] / "README.md").read_text(), re.DOTALL)


@pytest.mark.parametrize("name", sorted({*options.BATCH, *options.STREAM, *options.SINK, *SCHEMA.fieldNames(), *TYPES}))
def test_everything_has_its_place_in_the_page(name: str) -> None:
    assert f"`{name}`" in TEXT


def test_every_option_of_kafka_s_source_has_its_row_beside_ours() -> None:
    rows = [line.split("|") for line in TEXT.splitlines() if line.startswith("| ")]
    kafkas = {name for row in rows if len(row) == 5 for name in re.findall(r"`([^`]+)`", row[1])}
    here = {name for row in rows if len(row) == 5 for name in re.findall(r"`(\w+)`", row[2])}

    assert set(KAFKA_S) <= kafkas
    assert {"assign", "requestTimeout", "brokerWait", "group", "properties", "sharding"} <= here


def example(mark: str) -> str:
    (found,) = [each for each in EXAMPLES if mark in each]
    return str(found)


def test_every_example_has_what_runs_it() -> None:
    """A new block takes its place here; else nothing would run it."""
    assert sorted(EXAMPLES) == sorted(map(example, RUN_BY))
    own = Path(__file__).read_text()
    assert all((ROOT / place).is_file() if "/" in place else f"def {place}(" in own for place in RUN_BY.values())


def test_the_howto_s_examples_run(spark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    question, handler = HOWTO
    names: dict[str, Any] = {"__name__": __name__}
    exec(question, names)
    exec(handler, names)
    with thread_box() as box:
        box.send("orders", [Message("orders", f"m{n}", tags="red" if n % 2 else "blue") for n in range(4)], queue=0)
        found = [tuple(row) for row in names["red_orders"](spark, box.address).collect()]
    run = SparkRunner(Given(spark)).prepared(names["revenue"].spec.function, "revenue", "revenue")
    queue = MessageQueue("clicks", "broker-a", 0)
    clicks = [
        Message("clicks", body, tags="a", queue=queue, queue_offset=n) for n, body in enumerate(["1.5", "free", "2"])
    ]

    assert [(1, "m1"), (3, "m3")] == found
    assert run(clicks) is None
    assert "|  a|       3.5|" in capsys.readouterr().out


def test_a_consumer_drops_rows_that_spark_repeated(capfd: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"__name__": __name__}
    exec(example("def ledger"), names)

    with Harness(names["ledger"]) as desk:
        for row in (0, 1, 0, 2, 1):
            desk.send("paid", f"m{row}", properties={"SPARK_ROW": f"query/7/0/{row}"})
        desk.settle()

    lines = capfd.readouterr().out.splitlines()  # the log's among them
    assert ["m0", "m1", "m2"] == sorted(line for line in lines if line.startswith("m"))


@pytest.mark.timeout(600)
def test_the_examples_run(spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with thread_box() as box, Reader(ReaderSettings((box.address,))) as reader:  # for its topics have plain names
        _run_examples(spark, box, reader, tmp_path, capsys)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_mirror_s_example_runs(spark: Any, tmp_path: Path) -> None:
    """`make slow PART=mirror_s_example`: a query of one batch an hour, whose offsets the brokers have at once."""
    with thread_box() as box, Reader(ReaderSettings((box.address,))) as reader:
        box.send("orders", [Message("orders", f"m{n}") for n in range(7)], queue=0)
        exec(example("OffsetMirror"), {"spark": spark, "name_servers": box.address})
        orders = (
            spark.readStream.format("rocketmq")
            .options(nameServers=box.address, topic="orders", startingOffsets="earliest")
            .load()
        )
        hourly = orders.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "hourly"))
        query = hourly.queryName("paid").trigger(processingTime="1 hour").start()  # and nobody else tells for an hour
        try:
            (queue,) = [each for each in reader.queues("orders") if reader.max_offset(each)]
            wait_until(
                lambda: query.exception() is not None or reader.committed("revenue", queue) == 7, "the mirror", 300
            )
            assert query.exception() is None
        finally:
            query.stop()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_example_of_a_state_runs(spark: Any, tmp_path: Path) -> None:
    """`make slow PART=of_a_state`: a second run of the query goes on with the state of the first."""
    if find_spec("pandas") is None or find_spec("google") is None:
        lacking('it needs pip install -e "plugins/spark[connect]"')
    session, found = spark.newSession(), []
    with thread_box() as box:
        orders = session.readStream.format("rocketmq").options(nameServers=box.address, topic="orders")
        for cents in (1, 10):
            box.send("orders", [Message("orders", str(cents * n), keys=["ab"[n % 2]]) for n in range(4)], queue=0)
            names: dict[str, Any] = {"spark": session, "stream": orders.option("startingOffsets", "earliest").load()}
            names["__name__"] = "__main__"  # as in a program: the class goes to the workers by value
            exec(example("StatefulProcessor"), names)
            written = (
                names["totals"]
                .writeStream.outputMode("update")
                .foreachBatch(lambda frame, _: found.append({tuple(row) for row in frame.collect()}))
            )
            query = written.option("checkpointLocation", str(tmp_path / "state")).trigger(availableNow=True).start()
            assert query.awaitTermination(600)
            assert query.exception() is None

    assert [{("a", 2), ("b", 4)}, {("a", 22), ("b", 44)}] == [each for each in found if each]


def _run_examples(
    spark: Any, box: ThreadBox, reader: Reader, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    box.send("orders", [Message("orders", f"m{n}", tags="red" if n % 2 else "blue") for n in range(6)], queue=0)
    names: dict[str, Any] = {
        "spark": spark, "name_servers": box.address, "checkpoint": str(tmp_path / "checkpoint")
    }  # fmt: skip

    exec(example("PYSPARK_PYTHON"), names)
    exec(example("red ="), names)
    assert ["m1", "m3", "m5"] == [row.body for row in names["red"].collect()]

    exec(example("hints = "), names)
    assert names["hints"][0] in example("hints = ")

    exec(example("import read\n"), names)
    assert [(3, b"m3")] == [tuple(row) for row in names["some"].collect()]

    exec(FIRST_LINE.replace("127.0.0.1:9876", box.address), names)
    assert names["orders"].isStreaming

    exec(example("paid.writeStream"), names)
    assert names["query"].exception() is None
    assert 6 == sum(reader.max_offset(queue) for queue in reader.queues("paid"))

    exec(example("createDataFrame"), names)
    assert 1 == sum(reader.max_offset(queue) for queue in reader.queues("receipts"))

    framed = spark.createDataFrame([(0, b"\x00\x00\x00\x00\x07" + b'{"price": 1.5}')], "offset bigint, body binary")
    names["frame"] = framed
    exec(example("payload("), names)
    assert [7] == [row.schema for row in names["texts"].collect()]
    assert [1.5] == [row.price.price for row in names["prices"].collect()]

    exec(example("ProgressListener"), names)
    names["listener"].close()
    assert "6 rows in" in capsys.readouterr().out

    exec(example("def revenue"), names)
    run = SparkRunner(Given(spark)).prepared(names["revenue"].spec.function, "revenue", "revenue")
    queue = MessageQueue("clicks", "broker-a", 0)
    bodies = ["1.5", "free", "2"]
    clicks = [Message("clicks", body, tags="a", queue=queue, queue_offset=n) for n, body in enumerate(bodies)]

    assert [None, DeadLetter("no price"), None] == run(clicks)

    exec(example("def tagged"), names)
    spark.conf.set("spark.framework.nameServers", box.address)
    names["tagged"].spec.function(spark.createDataFrame([(b"1", "a")], "body binary, tag string"))
    spark.conf.unset("spark.framework.nameServers")
    assert 1 == sum(reader.max_offset(queue) for queue in reader.queues("tagged"))

    exec(example("def totals"), names)
    split: Any = SparkRunner(Given(spark)).prepared(names["totals"].spec.function, "totals", "totals")(clicks)
    assert [None, "CAST_INVALID_INPUT", None] == [each and each.getCondition() for each in split]
