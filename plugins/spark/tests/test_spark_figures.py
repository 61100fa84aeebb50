"""What a handler on Spark has run, as numbers in the snapshot: in both modes, and without a JVM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

import pyarrow as pa
import pytest
from framework_spark.counting import Reads
from framework_spark.managed import ManagedQuery
from framework_spark.mirror import OffsetMirror
from framework_spark.reports import messages_in
from framework_spark.runner import SparkRunner
from framework_spark.settings import GroupSettings
from framework_spark.tally import Tally

from framework import consumer
from framework.errors import ConfigurationError
from framework.hooks import hookimpl
from framework.hooks.host import PluginHost
from framework.model.contracts import Counting, Taking
from framework.model.queue import MessageQueue
from framework.model.subscription import Start
from framework.reading import Reader
from framework.settings.schema import ClusterSettings
from framework.testing import Harness
from tests.reading.tables import Tables
from tests.reading.threads import ThreadBox, texts


class Plugin:
    @hookimpl
    def register_runners(self) -> dict[str, SparkRunner]:
        return {"spark": SparkRunner(Tables())}


def test_batches_of_mode_driver_are_counted_in_the_group_s_snapshot() -> None:
    @consumer("clicks", group="revenue", engine="spark", batch=20, linger="1s")
    def revenue(frame: pa.Table) -> None:
        if b"bad" in frame.column("body").to_pylist():
            raise ValueError("no price")

    host = PluginHost(objects={"spark": Plugin()}, discover=lambda: ())
    with Harness(revenue, plugins=host, settings={"consumers": {"revenue": {"max_retries": 1}}}) as desk:
        assert {} == desk.snapshot().groups[0].figures, "nothing ran yet"
        for number in range(5):
            desk.send("clicks", f"m{number}")
        desk.settle()
        well: Mapping[str, float] = desk.snapshot().groups[0].figures
        desk.send("clicks", "bad")
        desk.settle()
        found = desk.snapshot().groups[0].figures

    assert isinstance(SparkRunner(Tables()), Counting)
    assert (5, 0) == (well["rows_total"], well["failed_batches_total"])
    assert well["batches_total"] >= 1
    assert well["batch_ms_total"] >= well["batch_ms"] > 0
    assert (7, 2, 1) == (found["rows_total"], found["failed_batches_total"], found["batch_rows"])


def test_a_tally_is_nothing_before_the_first_batch() -> None:
    tally = Tally()
    assert {} == tally.figures
    with tally.batch(3):
        pass
    with pytest.raises(ValueError, match="no"), tally.batch(4):
        raise ValueError("no")
    assert (2, 7, 1, 4) == tuple(
        tally.figures[name] for name in ("batches_total", "rows_total", "failed_batches_total", "batch_rows")
    )


def batch(number: int, rows: int, took: int, *, latest: int = 100) -> dict[str, Any]:
    """What Spark says of one; without rows and time, of a trigger that found nothing."""
    source = {
        "startOffset": {"clicks": {"broker-a": {"0": 10 * number - rows}}},
        "endOffset": {"clicks": {"broker-a": {"0": 10 * number}}},
        "latestOffset": {
            "clicks": {"broker-a": {"0": latest, "1": 7}},
            "(behind)": {"messages": {"clicks@broker-a:1": 7}},
        },
    }
    times = {"triggerExecution": took, **({"addBatch": took} if rows else {})}
    read = 2 * rows  # as where the handler had two jobs
    return {"batchId": number, "numInputRows": read, "durationMs": times, "sources": [source]}


@dataclass
class Query:
    """A query that has run these batches."""

    recentProgress: list[dict[str, Any]] = field(default_factory=list)  # noqa: N815  # Spark's names
    id: str = "1-2-3"

    @property
    def lastProgress(self) -> dict[str, Any]:  # noqa: N802
        return self.recentProgress[-1]

    @property
    def status(self) -> dict[str, Any]:
        return {"message": "Waiting for data to arrive"}


def managed(tally: Tally) -> ManagedQuery:
    taking = Taking(
        name="revenue", function=lambda frame: None, group="revenue", topic="clicks", tags="*", sql=None, batch=100,
        linger_ms=0, max_retries=2, start=Start("first"), cluster=ClusterSettings(),
    )  # fmt: skip
    settings = GroupSettings(mode="source", checkpoint="/nowhere")
    return ManagedQuery(taking, settings, Tables(), tally=tally)


def test_what_tasks_of_mode_source_did_is_counted_over_restarts() -> None:
    """A run's totals begin at nothing; the figures go on, and rise only."""
    tally, query = Tally(), Query([batch(0, 5, 30)])
    ours = managed(tally)

    class Totals:
        def __init__(self, *runs: Reads) -> None:
            self._runs = list(runs)

        def of(self, name: str) -> Reads:
            return self._runs.pop(0)

    names = ("pulls_total", "empty_pulls_total", "pulled_bytes_total", "broker_waits_total")
    found = []
    for runs in ((Reads(2, 1, 100), Reads(5, 1, 250, 2)), (Reads(1, 0, 10),)):
        ours._counting, ours._reads = Totals(*runs), Reads()  # type: ignore[assignment]  # as each run begins
        for _ in runs:
            ours._ask(query, 0.0)
            found.append(tuple(tally.figures[name] for name in names))

    assert [(2, 1, 100, 0), (5, 1, 250, 2), (6, 1, 260, 2)] == found


def test_batches_of_mode_source_are_counted_once_whatever_the_looks_at_the_query() -> None:
    tally, query = Tally(), Query([batch(0, 5, 30), batch(1, 7, 40)])
    ours = managed(tally)
    for _ in range(2):
        ours._ask(query, 0.0)
    query.recentProgress += [batch(2, 9, 50), batch(3, 0, 2)]
    for _ in range(2):
        ours._ask(query, 0.0)

    assert (3, 21, 120, 9, 50) == tuple(
        tally.figures[name] for name in ("batches_total", "rows_total", "batch_ms_total", "batch_rows", "batch_ms")
    )
    assert {"clicks@broker-a:0": 70, "clicks@broker-a:1": 7} == ours.lag
    assert 77 == tally.figures["lag"]
    assert "77" == ours.picture["lag"]


@dataclass
class Source:
    endOffset: str  # noqa: N815  # Spark's name


@dataclass
class Progress:
    name: str
    runId: UUID  # noqa: N815
    sources: list[Source]


@dataclass
class Event:
    progress: Progress


def test_a_mirror_follows_each_batch_of_its_query_and_no_other(box: ThreadBox, reader: Reader, topic: str) -> None:
    box.send(topic, texts(topic, 9), queue=0, broker="broker-a")
    queue, run = MessageQueue(topic, "broker-a", 0), uuid4()
    mirror = OffsetMirror(nameServers=box.address, group="mirrored", query="paid")

    def told(offset: int, *, name: str = "paid", run: UUID = run) -> int | None:
        ours = Source(f'{{"{topic}": {{"broker-a": {{"0": {offset}}}}}}}')
        kafka = Source(f'{{"{topic}": {{"0": 8}}}}')
        mirror.onQueryProgress(Event(Progress(name, run, [kafka, ours])))
        return reader.committed("mirrored", queue)

    assert not told(3, name="another")
    assert 3 == told(3)
    assert 6 == told(6)
    assert 6 == told(5), "forward only"
    assert 4 == told(4, run=uuid4()), "another run begins at its checkpoint"


def test_a_mirror_whose_broker_is_away_says_so_and_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    mirror = OffsetMirror(nameServers="127.0.0.1:1", group="mirrored", query="paid")
    mirror.onQueryProgress(Event(Progress("paid", uuid4(), [Source('{"t": {"broker-a": {"0": 1}}}')])))

    assert "offset of group mirrored not mirrored: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"nameServers": "a:1", "query": "paid"}, "option group is missing"),
        ({"group": "g", "query": "paid"}, "option nameServers is missing"),
        ({"nameServers": "a:1", "group": "g", "query": ""}, "give the query a queryName"),
        ({"nameServers": "a:1", "group": "g", "query": "q", "topic": "t"}, "option topic means nothing for a mirror"),
    ],
)
def test_a_mirror_that_cannot_work_is_refused(options: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        OffsetMirror(**options)


def test_messages_of_a_batch_are_its_offsets() -> None:
    begins = {MessageQueue("clicks", "broker-a", 0): 4}
    first = batch(1, 6, 30)
    first["sources"][0]["startOffset"] = None  # Spark does not say where a query without a checkpoint began

    assert 6 == messages_in(first, begins, is_filtered=False)
    assert 3 == messages_in(batch(3, 3, 30), begins, is_filtered=False)
    assert 2 == messages_in({**batch(3, 9, 30), "numInputRows": 2}, begins, is_filtered=True), "the broker left out 7"
