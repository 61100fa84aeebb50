"""Handlers with `engine="spark"`: batches as frames, verdicts as outcomes. All without a JVM but the last."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from framework_spark.frames import ADDRESS, SHAPE, outcomes_of, table_of
from framework_spark.mistakes import Stopping
from framework_spark.plugin import SparkPlugin
from framework_spark.runner import SparkRunner
from framework_spark.settings import SparkSettings

from framework import consumer
from framework.errors import ConfigurationError
from framework.hooks import hookimpl
from framework.hooks.host import PluginHost
from framework.model.outcome import DeadLetter, RetryLater
from framework.testing import Harness
from framework.testing.errors import Violation
from tests.reading.tables import Tables, messages


class Plugin:
    """The door that the real one uses, with sessions that need no JVM."""

    @hookimpl
    def register_runners(self) -> dict[str, SparkRunner]:
        return {"spark": SparkRunner(Tables())}


def verdicts(*rows: tuple[int, str | None], topic: str = "clicks", broker: str = "broker-a") -> pa.Table:
    return pa.Table.from_pylist(
        [{"topic": topic, "broker": broker, "queueId": 3, "offset": at, "verdict": verdict} for at, verdict in rows]
    )


def test_a_frame_has_the_columns_of_the_source() -> None:
    from framework_spark.schema import SCHEMA
    from pyspark.sql.pandas.types import to_arrow_schema

    assert to_arrow_schema(SCHEMA, timezone="UTC").types == SHAPE.types
    assert SCHEMA.fieldNames() == SHAPE.names
    row = table_of(messages(2)).to_pylist()[1]
    assert ("clicks", "broker-a", 3, 1, b"m1", "k") == (*(row[name] for name in ADDRESS), row["body"], row["key"])


def test_rows_with_a_verdict_end_by_it_and_all_others_are_well() -> None:
    batch = messages(5)
    named = verdicts((1, "retry"), (2, "dead_letter"), (3, "ok"), (4, None), (2, "retry"))
    found = outcomes_of(named.append_column("reason", pa.array(["again", "bad", None, None, None])), batch)

    assert [None, RetryLater(reason="again"), DeadLetter("bad"), None, None] == found


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (verdicts((9, "retry")), r"\('clicks', 'broker-a', 3, 9\), which is no message of the batch"),
        (verdicts((1, "retry"), topic="%RETRY%revenue"), "is no message of the batch"),
        (verdicts((1, "drop")), "verdict 'drop': write one of ok, retry, dead_letter"),
        (pa.table({"offset": [1]}), "has no column topic"),
    ],
)
def test_a_verdict_that_fits_nothing_fails_the_batch(table: pa.Table, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        outcomes_of(table, messages(2))


def test_in_an_application_named_rows_come_back_alone_and_all_others_once() -> None:
    batches: list[list[tuple[bytes, int]]] = []

    @consumer("clicks", group="revenue", engine="spark", batch=20, linger="1s")
    def revenue(frame: pa.Table) -> pa.Table:
        rows = frame.to_pylist()
        batches.append(sorted((row["body"], row["reconsumeTimes"]) for row in rows))
        bad = [row for row in rows if row["body"] == b"m3" or (row["body"] == b"m4" and not row["reconsumeTimes"])]
        return pa.Table.from_pylist(
            [{**{name: row[name] for name in ADDRESS}, "verdict": "retry", "reason": "no price"} for row in bad],
            schema=pa.schema(
                [*(SHAPE.field(name) for name in ADDRESS), ("verdict", pa.string()), ("reason", pa.string())]
            ),
        )

    with Harness(
        revenue,
        settings={"consumers": {"revenue": {"max_retries": 2}}},
        plugins=PluginHost(objects={"spark": Plugin()}, discover=lambda: ()),
    ) as desk:
        for number in range(8):
            desk.send("clicks", f"m{number}")
        desk.settle()

        assert [b"m3"] == [each.body for each in desk.dead_letters("revenue")]
    delivered = sorted(row for batch in batches for row in batch)
    expected = [(f"m{n}".encode(), 0) for n in range(8)] + [(b"m3", 1), (b"m3", 2), (b"m4", 1)]
    assert sorted(expected) == delivered
    assert 3 <= len(batches) < 8, "they came in batches"


def test_an_engine_that_nobody_offers_is_named_at_the_handler() -> None:
    @consumer("clicks", group="revenue", engine="sparc")
    def revenue(frame: Any) -> None: ...

    host = PluginHost(objects={"spark": Plugin()}, discover=lambda: ())
    with (
        pytest.raises(ConfigurationError, match=r"'revenue': no engine 'sparc'; did you mean 'spark'"),
        Harness(revenue, plugins=host),
    ):
        pass


def test_a_session_that_died_is_made_again_and_nothing_is_lost() -> None:
    sessions = Tables(failures=2, pause_s=0.001)
    seen: list[int] = []
    run = SparkRunner(sessions).prepared(lambda frame: seen.append(frame.num_rows), "revenue", "revenue")

    run(messages(3))
    sessions.dead.add(1)
    run(messages(4))

    assert [3, 4] == seen
    assert 2 == sessions.made


def test_who_waits_for_a_session_is_let_go_when_the_application_ends() -> None:
    runner = SparkRunner(Tables(failures=1_000_000, pause_s=30))
    threading.Timer(0.05, runner.stop).start()

    with pytest.raises(Stopping, match="delivered again"):
        runner.prepared(lambda _: None, "revenue", "revenue")(messages(1))


def test_without_java_an_application_does_not_start_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @consumer("clicks", group="revenue", engine="spark")
    def revenue(frame: Any) -> None: ...

    def started(settings: SparkSettings) -> None:
        with Harness(revenue, plugins=PluginHost(objects={"spark": SparkPlugin(settings)}, discover=lambda: ())):
            pass

    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises((ConfigurationError, Violation), match="Spark needs Java 17 or newer, and there is no java on"):
        started(SparkSettings())
    started(SparkSettings(session="json:loads"))  # which is asked when the first batch comes
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises((ConfigurationError, Violation), match=r"and JAVA_HOME=.* has no bin/java; mend or unset it"):
        started(SparkSettings())
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").touch()
    started(SparkSettings())
