"""A real Spark: the format is found by itself, reads and streams what was sent, and writes it back.

Few tests, each with few jobs: what needs no JVM is tested without one, beside this file.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from framework_spark.limit import JobOverLimit, limited

from framework.reading import Reader, decode_properties
from tests.reading.threads import ThreadBox, texts

# One worker for all of them: another would start a JVM of its own.
pytestmark = [pytest.mark.timeout(600), pytest.mark.xdist_group("spark")]


def test_what_was_sent_is_read_by_offset(spark: Any, box: ThreadBox, topic: str) -> None:
    box.send(topic, texts(topic, 100, tags="red", keys=["k"]), queue=0, broker="broker-a")
    box.send(topic, texts(topic, 50, start=100), queue=1, broker="broker-b")

    frame = spark.read.format("rocketmq").option("nameServers", box.address).option("topic", topic).load()
    rows = frame.selectExpr("broker", "offset", "cast(body as string) body", "tag", "properties['KEYS'] k").collect()

    assert [f"m{n}" for n in range(150)] == [row.body for row in sorted(rows, key=lambda row: (row.broker, row.offset))]
    assert {("broker-a", "red", "k"), ("broker-b", None, None)} == {(row.broker, row.tag, row.k) for row in rows}
    assert "timestamp" == dict(frame.dtypes)["storeTime"]
    nothing = spark.read.format("rocketmq").options(nameServers=box.address, topic=topic, startingOffsets="latest")
    assert [] == nothing.load().collect()


def test_a_mistyped_option_is_one_error_with_the_right_name(spark: Any, box: ThreadBox) -> None:
    from pyspark.errors import AnalysisException

    with pytest.raises(AnalysisException, match="unknown option 'topc'; did you mean 'topic'"):
        spark.read.format("rocketmq").option("nameServers", box.address).option("topc", "x").load().collect()


def test_a_stream_goes_on_at_its_checkpoint_and_mirrors_it(
    spark: Any, box: ThreadBox, reader: Reader, topic: str, tmp_path: Path
) -> None:
    """From one topic into another, by two runs of one query: each message once, and the group's offsets at the end."""
    copy = f"{topic}-copy"

    def run() -> list[Any]:
        source = (
            spark.readStream.format("rocketmq")
            .options(nameServers=box.address, topic=topic, group="revenue", startingOffsets="earliest")
            .option("maxOffsetsPerTrigger", 60)
            .load()
        )
        stream = (
            source.selectExpr("body", "key", "tag", "map('from', cast(offset as string)) properties")
            .writeStream.format("rocketmq")
            .options(nameServers=box.address, topic=copy, checkpointLocation=str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
        )
        query = stream.start()
        assert query.awaitTermination(300)
        return list(query.recentProgress)

    box.send(topic, texts(topic, 100, tags="red"), queue=0, broker="broker-a")
    progress = run()
    box.send(topic, texts(topic, 5, start=100), queue=0, broker="broker-a")
    run()

    (queue,) = [queue for queue in reader.queues(topic) if reader.max_offset(queue)]
    assert 105 == reader.committed("revenue", queue)
    written = [
        (body or b"", decode_properties(text))
        for each in reader.queues(copy)
        for columns in reader.read(each, 0, reader.max_offset(each))
        for body, text in zip(columns.bodies, columns.properties, strict=True)
    ]
    assert sorted(f"m{n}".encode() for n in range(105)) == sorted(body for body, _ in written)
    names = {properties["SPARK_ROW"] for _, properties in written}
    assert 105 == len(names), "each row has a name of its own"
    assert {"0", "1", "2"} == {name.split("/")[1] for name in names}, "the second of its four parts is the epoch"
    assert 1 == len({name.split("/")[0] for name in names}), "the first is the query, over all its runs"
    sizes = [each["numInputRows"] for each in progress if each["numInputRows"]]
    assert [60, 40] == sizes
    last = next(each for each in reversed(progress) if each["numInputRows"])["sources"][0]
    ends = last["endOffset"] if isinstance(last["endOffset"], dict) else json.loads(last["endOffset"])
    assert 100 == ends[topic]["broker-a"]["0"]


def test_a_job_over_its_limit_is_cancelled_and_the_session_goes_on(spark: Any) -> None:
    """The job would sleep for an hour."""
    session = spark.newSession()
    hanging = session.range(1).selectExpr("java_method('java.lang.Thread', 'sleep', 3600000L)")

    with (
        pytest.raises(JobOverLimit, match="handler revenue took longer than its job_timeout"),
        limited(session, 1000, "revenue"),
    ):
        hanging.collect()

    with limited(session, 3_600_000, "revenue"):
        assert 1 == session.range(1).count()


def test_a_machine_without_java_is_told_so() -> None:
    """PySpark's own error; it names JAVA_HOME."""
    program = "from pyspark.sql import SparkSession; SparkSession.builder.master('local[1]').getOrCreate()"
    environment = {"PATH": str(Path(sys.executable).parent), "HOME": os.environ.get("HOME", "/tmp")}

    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False, timeout=120
    )

    assert 0 != done.returncode
    assert "JAVA" in done.stderr.upper()
