"""`mode: source`: what settings and handler give to the query, what a batch's answer means, and a real query."""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest
from framework_spark import cluster_of, side_effect_free
from framework_spark.frames import ADDRESS
from framework_spark.managed import ManagedQuery, loaded
from framework_spark.mistakes import SessionDied
from framework_spark.reports import progress_facts
from framework_spark.sessions import SessionsOfThisProcess
from framework_spark.settings import GroupSettings, SparkSettings
from framework_spark.survey import DataLost
from pydantic import ValidationError
from structlog.testing import capture_logs

from example_app import revenue_plot
from framework import DeadLetter, RetryLater
from framework.errors import ConfigurationError
from framework.model.contracts import Taking
from framework.model.subscription import Start
from framework.reading import Reader, decode_properties
from framework.settings.schema import ClusterSettings
from tests.patience import wait_until
from tests.reading.tables import Given, Unbranched
from tests.reading.threads import ThreadBox, texts


def taking(function: Callable[[Any], object], **changes: Any) -> Taking:
    given = {
        "name": "revenue", "function": function, "group": "revenue", "topic": "clicks", "tags": "*", "sql": None,
        "batch": 100, "linger_ms": 0, "max_retries": 2, "start": Start("first"), "cluster": ClusterSettings(),
    }  # fmt: skip
    return Taking(**{**given, **changes})


def query(function: Callable[[Any], object], **changes: Any) -> ManagedQuery:
    settings = GroupSettings(mode="source", checkpoint="/nowhere")
    return ManagedQuery(taking(function, **changes), settings, Unbranched(None))


def verdicts(*rows: tuple[int, str], topic: str = "clicks") -> pa.Table:
    return pa.Table.from_pylist(
        [{"topic": topic, "broker": "broker-a", "queueId": 3, "offset": at, "verdict": verdict} for at, verdict in rows]
    )


class Frame:
    """As much of a DataFrame as a batch needs."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def toArrow(self) -> pa.Table:  # noqa: N802  # Spark's name
        return self.table

    def select(self, *names: str) -> Frame:
        return Frame(self.table.select(names))


ROWS = Frame(
    pa.table(
        {"topic": ["clicks"] * 3 + ["%RETRY%revenue"], "broker": ["broker-a"] * 4, "queueId": [3] * 4,
         "offset": [0, 1, 2, 7]}
    )
)  # fmt: skip
ALL = [(0, "retry"), (1, "retry"), (2, "retry"), (7, "retry")]


def failed(answer: Callable[[Any], object], **changes: Any) -> list[tuple[int, str]]:
    return [(row["offset"], row["verdict"]) for row in query(answer, **changes)._batches.failed(ROWS, None)]


def test_rows_with_a_verdict_are_sent_back_and_all_others_are_well() -> None:
    assert [] == failed(lambda frame: None)
    named = verdicts((0, "ok"), (1, "retry"), (2, "retry"), (2, "dead_letter"), (1, "retry"))
    assert [(1, "retry"), (2, "dead_letter")] == failed(lambda frame: Frame(named))
    back = verdicts((7, "retry"), topic="%RETRY%revenue")
    assert [(7, "retry")] == failed(lambda frame: Frame(back))


OTHER_QUEUE = pa.table({**verdicts((0, "retry")).to_pydict(), "queueId": [4]})
OTHER_BROKER = pa.table({**verdicts((0, "retry")).to_pydict(), "broker": ["broker-b"]})


@pytest.mark.parametrize(
    "answer",
    [
        verdicts((0, "drop")),
        pa.table({"offset": [1]}),
        verdicts((0, "retry"), topic="views"),
        verdicts((0, "retry"), topic="%RETRY%revenue"),
        verdicts((7, "dead_letter")),
        verdicts((1 << 60, "ok")),
        OTHER_QUEUE,
        OTHER_BROKER,
    ],
)
def test_an_answer_that_fits_nothing_sends_the_whole_batch_back(answer: pa.Table) -> None:
    """A message of the same topic that is not in the batch would be dead-lettered, and handled as well."""
    with capture_logs() as lines:
        assert ALL == failed(lambda frame: Frame(answer))

    assert ["revenue"] == [line["handler"] for line in lines if line["event"] == "handler failed"]


@pytest.mark.parametrize(
    "answer", [RetryLater, RetryLater("10s"), DeadLetter("no"), OSError, OSError("no"), 5, "ok", [0]]
)
def test_what_is_neither_a_frame_nor_nothing_is_no_success(answer: object) -> None:
    assert ALL == failed(lambda frame: answer)


def test_an_exception_is_the_handlers_fault_only_where_the_session_lives() -> None:
    def broken(frame: Any) -> None:
        raise OSError("no")

    assert ALL == failed(broken)
    given = Unbranched(None)
    ours = ManagedQuery(taking(broken), GroupSettings(mode="source", checkpoint="/nowhere"), given)
    given.is_dead = True
    with pytest.raises(SessionDied) as died:
        ours._batches.failed(ROWS, None)
    assert isinstance(died.value.__cause__, OSError)


def test_what_the_handler_and_the_cluster_say_becomes_options() -> None:
    cluster = ClusterSettings.model_validate(
        {"name_servers": ["a:1", "b:2"], "tls": {"enabled": True, "ca_file": "ca.pem"},
         "credentials": {"access_key": "k", "secret_key": "s", "file": "keys.yaml"}}
    )  # fmt: skip
    given = query(lambda frame: None, tags="a || b", cluster=cluster)._given
    assert {
        "nameServers": "a:1,b:2", "topic": "clicks,%RETRY%revenue", "group": "revenue", "maxOffsetsPerTrigger": "100",
        "tags": "a || b", "tls": "true", "tlsCaFile": "ca.pem", "credentials": "file:keys.yaml",
    } == given  # fmt: skip


@pytest.mark.parametrize(
    ("cluster", "words"),
    [
        ({"credentials": {"access_key": "k", "secret_key": "s"}}, "each executor of Spark's reads the keys by itself"),
        ({"tls": {"enabled": True, "verify": False}}, "verify certificates"),
        ({"allow": ["10.0.0.0/8"]}, "do not reach executors"),
    ],
)
def test_what_cannot_travel_to_executors_is_refused(cluster: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        query(lambda frame: None, cluster=ClusterSettings.model_validate(cluster))


def test_settings_that_cannot_work_are_refused() -> None:
    with pytest.raises(ValidationError, match="needs checkpoint"):
        GroupSettings(mode="source")
    with pytest.raises(ValidationError, match="in mode: source only"):
        GroupSettings(checkpoint="/somewhere")
    settings = GroupSettings(mode="source", checkpoint="/nowhere", options={"failOnDataLos": "false"})
    with pytest.raises(ConfigurationError, match="unknown option 'failOnDataLos'; did you mean 'failOnDataLoss'"):
        ManagedQuery(taking(lambda frame: None), settings, Unbranched(None))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"remote": "localhost:15002"}, "write sc://HOST:PORT"),
        ({"session": "shop.spark"}, "write module:function"),
        ({"remote": "sc://a", "master": "local[2]"}, "master and remote: give one of them"),
        (
            {"remote": "sc://a", "groups": {"revenue": {"mode": "source", "checkpoint": "/c"}}},
            "groups.revenue: mode: source wants a driver in this process",
        ),
        (
            {"groups": {"revenue": {"mode": "source", "checkpoint": "/c", "batch_bytes": "1MiB"}}},
            "in mode: driver only",
        ),
    ],
)
def test_sessions_that_cannot_work_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        SparkSettings.model_validate(settings)


def test_keys_of_spark_s_have_dots_wherever_they_come_from() -> None:
    """`--set plugins.settings.spark.conf.spark.sql.shuffle.partitions=4` was refused: found keys and values."""
    given = {"spark.ui.enabled": "false", "spark": {"sql": {"shuffle": {"partitions": "4"}}, "ui.enabled": "true"}}

    conf = SparkSettings.model_validate({"conf": given}).conf

    assert {"spark.ui.enabled": "true", "spark.sql.shuffle.partitions": "4"} == conf


def worker_python(folder: Path, body: str) -> str:
    """A program that Spark's workers would be told to run."""
    script = folder / "python"
    script.write_text(f"#!/bin/sh\n{body}\n")
    script.chmod(0o755)
    return str(script)


def test_a_python_for_workers_without_the_package_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else every task fails with DATA_SOURCE_NOT_FOUND, long after `check` said that all is well."""
    python = worker_python(tmp_path, f'exec {sys.executable} -S -E "$@"')
    monkeypatch.setenv("PYSPARK_PYTHON", python)
    monkeypatch.chdir(tmp_path)
    lacks = r"no numpy \(No module named 'numpy'\); no pyarrow .*; no pyspark .*; no framework .*; no framework_spark"

    with pytest.raises(
        ConfigurationError, match=f"PYSPARK_PYTHON={python}: .*{lacks}.* Install framework-app-spark there"
    ):
        SessionsOfThisProcess(SparkSettings()).check()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("echo 3.8", "it is Python 3.8, and the driver's is 3."),
        ("echo no library >&2; exit 127", "no library"),
        ("exit 3", "exit code 3"),
    ],
)
def test_a_python_for_workers_that_is_another_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, said: str
) -> None:
    """Spark refuses another minor version at the first task."""
    monkeypatch.setenv("PYSPARK_PYTHON", worker_python(tmp_path, body))

    with pytest.raises(ConfigurationError, match=said):
        SessionsOfThisProcess(SparkSettings()).check()


class Asked(Exception):
    pass


@pytest.mark.parametrize("given", ["", "/opt/python"])
@pytest.mark.parametrize("who", ["local[2,4]", "spark://host:7077", "the picture"])
def test_workers_run_this_python_unless_another_is_named(monkeypatch: pytest.MonkeyPatch, who: str, given: str) -> None:
    """PySpark took the first python3 of the PATH, which has no package, and found no data source."""
    from pyspark.sql import SparkSession

    def built(builder: object) -> None:
        raise Asked(os.environ["PYSPARK_PYTHON"])

    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", built)
    monkeypatch.setattr("framework_spark.sessions.reachable", lambda master: None)
    monkeypatch.setenv("PYSPARK_PYTHON", given)
    if not given:
        monkeypatch.delenv("PYSPARK_PYTHON")

    with pytest.raises(Asked, match=f"^{re.escape(given or sys.executable)}$"):
        revenue_plot.main("a:1", "x.svg") if who == "the picture" else SessionsOfThisProcess(
            SparkSettings(master=who)
        ).make()


def test_a_python_for_workers_that_is_no_program_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", str(tmp_path / "none"))

    with pytest.raises(ConfigurationError, match="there is no such program"):
        SessionsOfThisProcess(SparkSettings()).check()
    SessionsOfThisProcess(SparkSettings(master="spark://elsewhere:7077")).check()  # it may be there


def test_a_python_for_workers_that_has_the_package_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = tmp_path / "runs"
    python = worker_python(tmp_path, f'echo run >> {runs}; exec {sys.executable} "$@"')
    monkeypatch.setenv("PYSPARK_PYTHON", python)
    sessions = SessionsOfThisProcess(SparkSettings())

    sessions.check()
    sessions.check()
    assert "run\n" == runs.read_text(), "once, however many groups there are"


COUNTS = ("handled", "retried", "dead_lettered")
MADE: list[str] = []


def own_session() -> Any:
    """What `plugins.settings.spark.session` names below."""
    MADE.append("session")

    class Context:
        master, uiWebUrl, applicationId = "local", None, "app"  # noqa: N815  # Spark's names

    class Session:
        sparkContext = Context()  # noqa: N815

    return Session()


def test_a_session_of_one_s_own_is_asked_for() -> None:
    settings = SparkSettings(session=f"{__name__}:own_session")

    session = SessionsOfThisProcess(settings).make()

    assert ["session"] == MADE
    assert "Session" == type(session).__name__


def test_the_picture_has_what_spark_says_of_the_newest_batch() -> None:
    source: dict[str, Any] = {
        "endOffset": json.dumps({"clicks": {"broker-a": {"0": 10, "1": 5}}}),
        "latestOffset": {
            "clicks": {"broker-a": {"0": 12, "1": 105, "2": 3}},
            "(behind)": {"messages": {"clicks@broker-a:2": 3}},
        },
    }
    progress = {"batchId": 7, "numInputRows": 15, "durationMs": {"triggerExecution": 230}, "sources": [source]}

    assert {
        "spark_batch": "7", "rows": "15", "batch_ms": "230", "lag": "105", "lag_most": "clicks@broker-a:1 100"
    } == progress_facts(progress)  # fmt: skip
    source["latestOffset"] = None
    assert "0" == progress_facts(progress)["lag"]


def test_a_source_that_spark_failed_to_look_for_is_made_known_by_hand() -> None:
    from framework_spark.datasource import RocketMQ

    class Jvm:
        """One that believes that there are no sources of Python's, or has a trouble that is not mended by hand."""

        def __init__(self, trouble: str = "") -> None:
            self.known: list[Any] = []
            self.trouble = trouble

        @property
        def dataSource(self) -> Any:  # noqa: N802  # Spark's names
            return self

        def register(self, source: Any) -> None:
            self.known.append(source)

        def load(self) -> str:
            if self.trouble:
                raise OSError(self.trouble)
            if not self.known:
                raise OSError("[DATA_SOURCE_NOT_FOUND] Failed to find the data source: rocketmq.")
            return "a frame"

    jvm, other = Jvm(), Jvm("no broker")
    assert "a frame" == loaded(jvm, jvm)
    assert [RocketMQ] == jvm.known
    with pytest.raises(OSError, match="no broker"):
        loaded(other, other)
    assert not other.known


def test_rows_to_blame_are_found_of_a_function_that_may_run_again() -> None:
    sizes: list[int] = []

    class Whole(Frame):
        @property
        def sparkSession(self) -> Any:  # noqa: N802  # Spark's names
            return self

        def createDataFrame(self, table: pa.Table) -> Frame:  # noqa: N802
            return Frame(table)

    @side_effect_free()
    def handler(frame: Any) -> Any:
        offsets = frame.table.column("offset").to_pylist()
        sizes.append(len(offsets))
        if 2 in offsets:
            raise ValueError("no price")
        return Frame(verdicts((1, "dead_letter"))) if 1 in offsets else None

    rows = query(handler)._batches.failed(Whole(ROWS.table), None)

    assert [(1, "dead_letter"), (2, "retry")] == [(row["offset"], row["verdict"]) for row in rows]
    assert "ValueError: no price" == rows[-1]["reason"]
    assert 4 == sizes[0]


def test_a_group_without_a_checkpoint_goes_on_where_the_brokers_have_it(
    box: ThreadBox, reader: Reader, topic: str
) -> None:
    box.send(topic, texts(topic, 5), queue=0, broker="broker-a")
    box.send(topic, texts(topic, 5), queue=1, broker="broker-a")
    first, second, *_ = (each for each in reader.queues(topic) if reader.max_offset(each))
    reader.commit(topic, first, 3)
    cluster = ClusterSettings.model_validate({"name_servers": [box.address]})

    def starts(policy: Literal["first", "last"]) -> tuple[int, ...]:
        ours = query(lambda frame: None, topic=topic, group=topic, cluster=cluster, start=Start(policy))
        places = json.loads(ours._starting())[topic]["broker-a"]
        return places[str(first.number)], places[str(second.number)]

    assert (3, -2) == starts("first")
    assert (3, -1) == starts("last")


def test_a_group_that_is_beyond_the_end_of_its_queue_is_an_error(box: ThreadBox, reader: Reader, topic: str) -> None:
    """As after a topic was made anew: to begin there would pass over all that is sent until the queue is as long."""
    box.send(topic, texts(topic, 5), queue=0, broker="broker-a")
    place = next(each for each in reader.queues(topic) if reader.max_offset(each))
    reader.commit(topic, place, 2000)
    given = {"topic": topic, "group": topic, "cluster": ClusterSettings.model_validate({"name_servers": [box.address]})}

    with pytest.raises(DataLost, match=f"{place} ends at offset 5, and group {topic} is at 2000; .*failOnDataLoss"):
        query(lambda frame: None, **given)._starting()
    lenient = GroupSettings(mode="source", checkpoint="x", options={"failOnDataLoss": "false"})
    ours = ManagedQuery(taking(lambda frame: None, **given), lenient, SessionsOfThisProcess(SparkSettings()))
    assert 5 == json.loads(ours._starting())[topic]["broker-a"][str(place.number)]


@pytest.mark.timeout(1200)
def test_a_real_query_sends_back_what_fails_and_goes_on_where_it_stopped(
    spark: Any, box: ThreadBox, reader: Reader, topic: str, tmp_path: Path
) -> None:
    """m3 is poison, m4 fails once. The second run begins where the first ended; the group's offsets are the ends."""
    seen: list[tuple[str, int]] = []
    counts: list[tuple[int, ...]] = []

    def handler(frame: Any) -> Any:
        rows = frame.selectExpr("cast(body as string) body", "reconsumeTimes times", *ADDRESS)
        found = rows.collect()
        seen.extend((row.body, row.times) for row in found)
        assert {"nameServers": box.address} == cluster_of(frame.sparkSession)
        return rows.where("body = 'm3' or (body = 'm4' and times = 0)").selectExpr(
            *ADDRESS, "'retry' verdict", "'no price' reason"
        )

    settings = GroupSettings(mode="source", checkpoint=str(tmp_path / "checkpoint"))
    cluster = ClusterSettings.model_validate({"name_servers": [box.address]})

    def run(until: Callable[[], bool], what: str) -> None:
        shared = Given(spark)
        managed = ManagedQuery(taking(handler, topic=topic, group=topic, cluster=cluster), settings, shared)
        thread = threading.Thread(target=managed.run)
        thread.start()
        try:
            wait_until(until, what, 900)
        finally:
            managed.stop(60_000)
            thread.join(120)
        assert not thread.is_alive()
        counts.append(tuple(managed.counts[name] for name in COUNTS))

    def dead() -> list[tuple[bytes | None, dict[str, str]]]:
        return [
            (body, decode_properties(texts))
            for each in reader.queues(f"%DLQ%{topic}")
            for columns in reader.read(each, 0, reader.max_offset(each))
            for body, texts in zip(columns.bodies, columns.properties, strict=True)
        ]

    box.send(topic, texts(topic, 6), queue=0, broker="broker-a")
    with capture_logs() as lines:
        run(lambda: len(dead()) == 1 and ("m4", 1) in seen, "m3 among the dead letters, m4 handled")
    (named,) = [line for line in lines if line["event"] == "message dead-lettered"]
    assert (topic, "no price", "warning") == (named["group"], named["reason"], named["log_level"])
    box.send(topic, texts(topic, 2, start=6), queue=0, broker="broker-a")
    run(lambda: ("m7", 0) in seen, "the second run's messages")

    ((body, words),) = dead()
    assert b"m3" == body
    said = ("no price", "3", f"{topic}@broker-a:0:3", f"@{os.getpid()}")
    assert said == (
        words["DEAD_LETTER_REASON"], words["DEAD_LETTER_ATTEMPTS"], words["DEAD_LETTER_ORIGIN"],
        "@" + words["DEAD_LETTER_MEMBER"].rpartition("@")[2],
    )  # fmt: skip
    assert [(5, 3, 1), (2, 0, 0)] == counts, "retries count each time, as in other groups"
    expected = [(f"m{n}", 0) for n in range(8)] + [("m3", 1), ("m3", 2), ("m4", 1)]
    assert sorted(expected) == sorted(seen)
    for name in (topic, f"%RETRY%{topic}"):
        for queue in reader.queues(name):
            end = reader.max_offset(queue)
            assert end == (reader.committed(topic, queue) or 0), queue
