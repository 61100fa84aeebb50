"""What is said of a query's progress: by the source's report, by its newest batch, and by a listener that counts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from time import time
from types import SimpleNamespace
from typing import Any

import framework_spark
import pytest
from framework_spark import ProgressListener, progress
from framework_spark.counting import FIGURES, Counting, Reads, Sums
from framework_spark.datasource import RocketMQ
from framework_spark.offsets import flat
from framework_spark.reports import progress_facts
from framework_spark.source import StreamReader
from framework_spark.watching import Progress, progress_of
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from framework.broker.intercept import Interceptor
from framework.errors import ConfigurationError
from framework.model.queue import MessageQueue
from framework.wire.codes import RequestCode, ResponseCode
from framework.wire.command import RemotingCommand
from tests.patience import wait_until
from tests.reading.threads import ThreadBox, texts

FIRST, SECOND = MessageQueue("clicks", "broker-a", 0), MessageQueue("clicks", "broker-a", 1)


def report(**fields: Any) -> dict[str, Any]:
    """Spark's, of a batch that ended with 90 messages of the first queue and 7 of the second one not read."""
    source = {
        "startOffset": '{"clicks": {"broker-a": {"0": 0, "1": 0}}}',
        "endOffset": {"clicks": {"broker-a": {"0": 10, "1": 5}}},
        "latestOffset": json.dumps(
            {
                "clicks": {"broker-a": {"0": 100, "1": 12}},
                "(behind)": {"messages": {str(FIRST): 90, str(SECOND): 7}, "seconds": {str(FIRST): 4, str(SECOND): 31}},
                "(away)": {"seconds": {"broker-b": 12}},
            }
        ),
    }
    return {
        "id": "1-2-3", "name": None, "batchId": 3, "numInputRows": 15, "durationMs": {"triggerExecution": 500},
        "inputRowsPerSecond": 30.0, "processedRowsPerSecond": "NaN", "sources": [source], **fields,
    }  # fmt: skip


def found(**fields: Any) -> Progress:
    newest = progress_of(report(**fields))
    assert newest is not None
    return newest


def test_a_report_says_where_a_query_is_and_how_far_behind() -> None:
    newest = found()

    assert ("1-2-3", 3, 15, 500) == (newest.query, newest.batch, newest.rows, newest.batch_ms)
    assert ({FIRST: 0, SECOND: 0}, {FIRST: 10, SECOND: 5}) == (newest.start, newest.end)
    assert {FIRST: 100, SECOND: 12} == newest.latest
    assert ({FIRST: 90, SECOND: 7}, 97, (FIRST, 90)) == (newest.behind, newest.messages_behind, newest.most_behind)
    assert (31, {"broker-b": 12}) == (newest.seconds_behind, newest.away)
    assert (30.0, None) == (newest.rate_in, newest.rate_out), "Spark says NaN of what it cannot divide"
    assert "clicks" == found(name="clicks").query


def test_a_progress_is_one_readable_line() -> None:
    newest = progress_of(report(name="paid"), Reads(pulls=3, empty_pulls=1, bytes=700, waits=2, waited_ms=300))

    assert (
        "paid: batch 3, 15 rows in 500 ms; 30 rows/s in; 97 messages and 31 s behind, most in clicks@broker-a:0: 90; "
        "3 pulls (1 empty) of 700 bytes; 2 waits of 300 ms; broker broker-b away for 12 s"
    ) == str(newest)


def test_what_is_not_behind_waits_for_no_second() -> None:
    source = {**report()["sources"][0], "latestOffset": {"clicks": {"broker-a": {"0": 10, "1": 5}}}}

    newest = found(sources=[source])

    assert (0, 0, None) == (newest.seconds_behind, newest.messages_behind, newest.most_behind)
    assert "nothing behind" in str(newest)


def test_seconds_that_no_broker_said_are_not_known() -> None:
    source = {**report()["sources"][0], "latestOffset": {"clicks": {"broker-a": {"0": 11, "1": 5}}}}

    assert (None, 1) == (found(sources=[source]).seconds_behind, found(sources=[source]).messages_behind)


@pytest.mark.parametrize("offset", ["None", "null", "17", 17, None, "{", '{"file": 3}'])
def test_a_query_that_reads_nothing_of_rocketmq_has_no_progress(offset: Any) -> None:
    class Query:
        lastProgress = report(sources=[{"startOffset": offset, "endOffset": offset, "latestOffset": offset}])  # noqa: N815

    class New:
        lastProgress = None  # noqa: N815  # Spark's names

    assert progress(Query()) is None
    assert progress(New()) is None


def test_a_queue_of_which_nothing_was_read_is_behind_by_what_waits_and_not_by_its_offset() -> None:
    """Two queues came with a new broker, which had deleted much of the one and all of the other."""
    third, fourth = FIRST._replace(broker="broker-b"), SECOND._replace(broker="broker-b")
    latest = {
        "clicks": {"broker-a": {"0": 10, "1": 5}, "broker-b": {"0": 1000, "1": 500}},
        "(behind)": {"messages": {str(third): 20}, "seconds": {str(third): 3}},
    }
    given = {"sources": [{**report()["sources"][0], "latestOffset": latest}]}

    newest = found(**given)

    assert ({third: 20}, 3) == (newest.behind, newest.seconds_behind)
    assert (980, 500) == (newest.end[third], newest.end[fourth])
    assert ("20", f"{third} 20") == (
        progress_facts(report(**given))["lag"],
        progress_facts(report(**given))["lag_most"],
    )


def test_two_sources_of_a_query_are_one_progress() -> None:
    """A join of two topics; the file beside them is none of ours."""
    second = json.loads(json.dumps(report()["sources"][0]).replace("clicks", "pages"))
    files = {"startOffset": '{"logOffset": 1}', "endOffset": '{"logOffset": 2}', "latestOffset": None}

    newest = found(sources=[report()["sources"][0], files, second])

    assert 2 * 97 == newest.messages_behind
    assert {"clicks", "pages"} == {queue.topic for queue in newest.end}


def test_the_picture_of_a_managed_query_says_how_long_messages_wait() -> None:
    facts = progress_facts(report())

    assert ("97", "31") == (facts["lag"], facts["lag_seconds"])


def test_the_source_reports_what_waits_and_puts_nothing_of_it_into_the_checkpoint(
    box: ThreadBox, topic: str, stream: Callable[..., StreamReader], monkeypatch: pytest.MonkeyPatch
) -> None:
    began = time()
    box.send(topic, texts(topic, 100), queue=0, broker="broker-a")
    box.send(topic, texts(topic, 3), queue=0, broker="broker-b")
    reader = stream(topic=topic)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxRows(50))
    monkeypatch.setattr("framework_spark.survey.time.time", _later(1000))
    said: Any = reader.reportLatestOffset()

    waiting = {f"{topic}@broker-a:0": 52, f"{topic}@broker-b:0": 2}
    assert {topic, f"(last) {topic}"} == set(end)
    assert waiting == said["(behind)"]["messages"]
    assert set(waiting) == set(said["(behind)"]["seconds"])
    assert all(990 <= seconds <= 1010 + time() - began for seconds in said["(behind)"]["seconds"].values())
    assert 100 == said[topic]["broker-a"]["0"]

    everything = reader.latestOffset(end, ReadAllAvailable())
    assert flat(everything) == flat(reader.reportLatestOffset() or {}), "nothing waits, so nothing more is said"


def _later(seconds: float) -> Callable[[], float]:
    """The clock, put forward: what the box stored is then so old."""
    return lambda: time() + seconds


def test_the_report_names_a_broker_that_does_not_answer(
    box: ThreadBox, topic: str, stream: Callable[..., StreamReader]
) -> None:
    box.send(topic, texts(topic, 5), queue=0, broker="broker-a")
    box.send(topic, texts(topic, 5), queue=0, broker="broker-b")
    reader = stream(topic=topic)
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    assert {topic} == set(reader.reportLatestOffset() or {})
    reader._here._silent = {"broker-b": -5.0}

    assert {"broker-b"} == set((reader.reportLatestOffset() or {})["(away)"]["seconds"])
    assert 5 == end[topic]["broker-b"]["0"]


class Total:
    """As pyspark's accumulator adds."""

    def __init__(self) -> None:
        self.value: dict[str, dict[str, int]] = {}

    def add(self, more: dict[str, dict[str, int]]) -> None:
        self.value = Sums().addInPlace(self.value, more)


def test_tasks_count_their_pulls_and_their_waits(
    box: ThreadBox, topic: str, stream: Callable[..., StreamReader]
) -> None:
    box.send(topic, texts(topic, 40), queue=0, broker="broker-a")
    totals = Total()
    reader = stream(type("Counted", (RocketMQ,), {"totals": totals}), topic=topic)
    start = reader.initialOffset()
    (piece,) = reader.partitions(start, reader.latestOffset(start, ReadAllAvailable()))

    assert 40 == sum(len(batch) for batch in reader.read(piece))
    once = dict(totals.value[""])
    busy = Interceptor(
        code=RequestCode.LITE_PULL_MESSAGE, answer=lambda _: RemotingCommand(ResponseCode.SYSTEM_BUSY), times=2
    )
    box.broker.intercept(busy)
    assert 40 == sum(len(batch) for batch in reader.read(piece))
    twice = totals.value[""]

    assert set(FIGURES) == set(once)
    assert once["pulls"] >= 1
    assert once["bytes"] >= 40 * 91
    assert (0, 0, 0) == (once["empty_pulls"], once["waits"], once["waited_ms"])
    assert (2 * once["pulls"], 2 * once["bytes"]) == (twice["pulls"], twice["bytes"])
    assert (2, 300) == (twice["waits"], twice["waited_ms"])


def test_no_more_batches_are_kept_than_those_counted_last() -> None:
    sums, one = Sums(), dict.fromkeys(FIGURES, 1)
    value = sums.zero({})

    for number in range(2000):
        value = sums.addInPlace(value, {"query": one, f"query/{number}": one})

    assert 2000 == value["query"]["pulls"]
    assert (1000, one) == (len(value), value["query/1999"])


def test_what_was_counted_before_is_not_counted_again() -> None:
    before = Reads(pulls=2, bytes=10)

    assert Reads(pulls=3, bytes=5, waits=1) == Reads(pulls=5, bytes=15, waits=1).since(before)


def test_the_package_offers_what_watches() -> None:
    assert set(framework_spark.__all__) == {name for name in framework_spark.__all__ if getattr(framework_spark, name)}
    with pytest.raises(AttributeError, match="no attribute 'watch'"):
        framework_spark.watch  # noqa: B018


def test_a_client_of_connect_is_told_what_there_is_instead() -> None:
    kind = type("SparkSession", (), {})
    kind.__module__ = "pyspark.sql.connect.session"

    with pytest.raises(ConfigurationError, match=r"use progress\(query\)"):
        ProgressListener(kind())


@pytest.mark.timeout(600)
def test_a_listener_is_told_what_each_query_read(spark: Any, box: ThreadBox, topic: str, tmp_path: Path) -> None:
    """Two batches of one query, counted in the workers of a real Spark; another query of the session is told apart."""
    box.send(topic, texts(topic, 100), queue=0, broker="broker-a")
    session, told = spark.newSession(), list[Progress]()
    listener = ProgressListener(session, told.append)
    try:
        source = session.readStream.format("rocketmq").options(
            nameServers=box.address, topic=topic, startingOffsets="earliest", maxOffsetsPerTrigger=60
        )
        noop = source.load().writeStream.format("noop").queryName(topic)
        query = noop.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
        query.awaitTermination()
        wait_until(lambda: sum(each.rows for each in told) == 100, "both batches", 120)

        first, second = [each for each in told if each.rows]
        assert [(0, 60), (1, 40)] == [(each.batch, each.rows) for each in (first, second)]
        assert {topic} == {each.query for each in told}
        assert all(each.reads is not None and each.reads.pulls >= 1 for each in (first, second))
        assert all(each.reads is not None and each.reads.bytes >= 91 * each.rows for each in (first, second))
        total = listener._counting.of(str(query.id))
        assert total.bytes == sum(each.reads.bytes for each in told if each.reads is not None)
        assert 40 == first.messages_behind
        assert first.seconds_behind is not None
        assert {MessageQueue(topic, "broker-a", 0): 100} == {queue: end for queue, end in second.end.items() if end}
        assert told[-1] == progress(query, listener)
        bare = progress(query)
        assert bare is not None
        assert (second.end, None) == (bare.end, bare.reads)
    finally:
        listener.close()


@pytest.mark.parametrize(("rows", "reads"), [(15, None), (0, Reads())])
def test_a_query_that_is_not_counted_has_no_reads(rows: int, reads: Reads | None) -> None:
    """Of one that was loaded before the listener, no task says what it did: that is not nothing."""
    listener = ProgressListener.__new__(ProgressListener)
    told: list[Progress] = []
    counting = Counting.__new__(Counting)
    counting._totals = Total()
    listener._counting, listener._newest, listener._tell = counting, {}, told.append

    class Reported(dict[str, Any]):
        id, batchId, numInputRows = "1-2-3", 3, rows  # noqa: N815  # Spark's names

    listener.onQueryProgress(SimpleNamespace(progress=Reported(report(numInputRows=rows))))

    assert [reads] == [each.reads for each in told]
