"""What fails beside a handler spends no attempt: reading, a broker that is away, processes of Spark's that die."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from framework_spark import reason
from framework_spark.causes import DEATHS_MAX, SOURCE_DIED, cause_of
from framework_spark.frames import ADDRESS
from framework_spark.managed import ManagedQuery
from framework_spark.mistakes import HeldUp
from framework_spark.runner import SparkRunner
from framework_spark.settings import GroupSettings
from framework_spark.settling import Batches
from structlog.testing import capture_logs

from framework.broker.intercept import Interceptor
from framework.model.contracts import Taking
from framework.model.subscription import Start
from framework.reading import Reader
from framework.settings.schema import ClusterSettings
from framework.wire.codes import RequestCode, ResponseCode
from framework.wire.command import RemotingCommand
from tests.patience import wait_until
from tests.reading.tables import Given, messages
from tests.reading.threads import ThreadBox, texts
from tests.reading.victims import kill, victims

pytestmark = [pytest.mark.timeout(1200), pytest.mark.xdist_group("spark")]

HASTY = {"brokerWait": "0s", "fetchRetries": "0"}
AWAY = RemotingCommand(ResponseCode.GO_AWAY)
ROWS = pa.table({"topic": ["t"] * 2, "broker": ["broker-a"] * 2, "queueId": [0, 0], "offset": [0, 1]})


def taking(function: Callable[[Any], object], topic: str, **changes: Any) -> Taking:
    given = {
        "name": "revenue", "function": function, "group": topic, "topic": topic, "tags": "*", "sql": None,
        "batch": 100, "linger_ms": 0, "max_retries": 0, "start": Start("first"), "cluster": ClusterSettings(),
    }  # fmt: skip
    return Taking(**{**given, **changes})


@contextmanager
def running(
    spark: Any, box: ThreadBox, topic: str, handler: Callable[[Any], object], checkpoint: Path, **options: str
) -> Iterator[ManagedQuery]:
    """A query of `mode: source` whose messages have no second attempt."""
    settings = GroupSettings(mode="source", checkpoint=str(checkpoint), options={**HASTY, **options})
    cluster = ClusterSettings.model_validate({"name_servers": [box.address]})
    query = ManagedQuery(taking(handler, topic, cluster=cluster), settings, Given(spark, pause_s=0.01))
    thread = threading.Thread(target=query.run)
    thread.start()
    try:
        yield query
    finally:
        query.stop(60_000)
        thread.join(120)
    assert not thread.is_alive()


def test_a_broker_that_is_away_while_a_batch_is_read_spends_no_attempt(
    spark: Any, box: ThreadBox, reader: Reader, topic: str, tmp_path: Path
) -> None:
    """Spark reads within the handler, which may say in its own words that this failed."""
    box.send(topic, texts(topic, 20), queue=0, broker="broker-a")
    seen: list[int] = []

    def handler(frame: Any) -> None:
        try:
            seen.extend(row.offset for row in frame.select("offset").collect())
        except Exception as error:
            raise ValueError("no clicks") from error

    undo = box.broker.intercept(Interceptor(code=RequestCode.LITE_PULL_MESSAGE, answer=lambda _: AWAY, times=None))
    try:
        with capture_logs() as lines, running(spark, box, topic, handler, tmp_path / "checkpoint") as query:
            wait_until(lambda: any("attempts failed" in line.get("reason", "") for line in lines), "a failure", 900)
            undo()
            wait_until(lambda: len(seen) >= 20, "the batch", 900)
    finally:
        undo()

    assert list(range(20)) == seen
    assert {"handled": 20, "retried": 0, "dead_lettered": 0} == query.counts
    assert {"spark query started", "spark query ended"} == {line["event"] for line in lines}
    assert all("BrokerUnreachable: " in line["reason"] for line in lines if line["event"] == "spark query ended")
    back = [queue for name in ("%DLQ%", "%RETRY%") for queue in reader.queues(f"{name}{topic}")]
    assert 0 == sum(map(reader.max_offset, back)), "nothing was sent back"


def test_whose_fault_it_is_is_told_by_where_it_was_raised(spark: Any, box: ThreadBox, topic: str) -> None:
    """A handler's own mistakes are its own, whatever their texts say; also what it reads by itself."""
    box.send(topic, texts(topic, 5), queue=0, broker="broker-a")
    words = "PythonStreamingPartitionReaderFactory, framework.errors.BrokerUnreachable, java.io.IOException"
    frame = spark.createDataFrame(ROWS)

    def read_elsewhere(given: Any) -> None:
        options = {"nameServers": box.address, "topic": topic, **HASTY}
        undo = box.broker.intercept(Interceptor(code=RequestCode.LITE_PULL_MESSAGE, answer=lambda _: AWAY, times=None))
        try:
            given.sparkSession.read.format("rocketmq").options(**options).load().collect()
        finally:
            undo()

    def raised(given: Any) -> None:
        raise OSError(words)

    def raised_in_a_task(given: Any) -> None:
        given.rdd.foreach(lambda row: (_ for _ in ()).throw(OSError(words)))

    def cast(given: Any) -> None:
        given.selectExpr("cast(topic as int)").collect()

    def verdict_about_others(given: Any) -> Any:
        return given.selectExpr(*ADDRESS[:3], "offset + 100 offset", "'dead_letter' verdict")

    for function in (read_elsewhere, raised, raised_in_a_task, cast, verdict_about_others):
        batches = Batches(taking(function, topic), Given(spark))
        failed = batches.failed(frame, spark)
        assert [(0, "retry"), (1, "retry")] == [(row["offset"], row["verdict"]) for row in failed], function


def test_a_worker_that_dies_holds_the_batch_up_until_the_handler_must_be_what_kills_it(spark: Any) -> None:
    def kill(frame: Any) -> None:
        frame.rdd.foreach(lambda row: os._exit(3))

    batches = Batches(taking(kill, "t"), Given(spark))
    frame = spark.createDataFrame(ROWS)

    for _ in range(DEATHS_MAX - 1):
        with pytest.raises(HeldUp, match=r"EOFException|worker exited"):
            batches.failed(frame, spark)
    assert [0, 1] == [row["offset"] for row in batches.failed(frame, spark)]


def test_in_mode_driver_a_worker_that_dies_spends_no_attempt_either(spark: Any) -> None:
    runs: list[int] = []

    def killed_once(frame: Any) -> None:
        runs.append(frame.count())
        if len(runs) == 1:
            frame.select(*ADDRESS).rdd.foreach(lambda row: os._exit(3))

    handler = SparkRunner(Given(spark, pause_s=0.01)).prepared(killed_once, "revenue", "revenue")
    with capture_logs() as lines:
        assert handler(messages(3)) is None

    assert [3, 3] == runs
    assert ["batch held up"] == [line["event"] for line in lines]


def test_a_source_process_that_died_is_named(spark: Any, box: ThreadBox, topic: str, tmp_path: Path) -> None:
    """Spark's own text ends at "terminated with exception:", or at what became of its pipe."""
    box.send(topic, texts(topic, 1), queue=0, broker="broker-a")
    before = set(victims(os.getpid(), "source"))
    frame = spark.readStream.format("rocketmq").options(nameServers=box.address, topic=topic).load()
    query = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start()
    try:
        wait_until(lambda: query.lastProgress is not None or query.exception() is not None, "a first look", 300)
        assert "" == reason(query)
        (pid,) = set(victims(os.getpid(), "source")) - before
        kill(pid)
        with pytest.raises(Exception, match="terminated with exception: ") as raised:
            query.awaitTermination(300)
    finally:
        query.stop()

    assert cause_of(raised.value) == reason(query)
    assert reason(query).endswith(f"Exception: {SOURCE_DIED}"), reason(query)
