"""A query that ends is started again after a pause. It grows until a batch gets through, and from then on anew."""

from __future__ import annotations

import threading
from typing import Any

import pyarrow as pa
import pytest
from framework_spark.managed import ManagedQuery
from framework_spark.sessions import PAUSE_MAX_S
from framework_spark.settings import GroupSettings
from structlog.testing import capture_logs

from framework.model.contracts import Taking
from framework.model.subscription import Start
from framework.settings.schema import ClusterSettings
from tests.reading.tables import Unbranched


class Query:
    """Spark's, with nothing to say."""

    status: dict[str, Any] = {"isDataAvailable": False, "message": "waiting"}  # noqa: RUF012 - read only
    lastProgress = None  # noqa: N815 - Spark's name
    recentProgress: list[Any] = []  # noqa: N815, RUF012 - likewise


class Frame:
    def toArrow(self) -> pa.Table:  # noqa: N802 - Spark's name
        return pa.table({"topic": ["clicks"], "broker": ["broker-a"], "queueId": [3], "offset": [0]})

    def select(self, *names: str) -> Frame:
        return self


def managed(pause_s: float = 0.001) -> ManagedQuery:
    taking = Taking(
        name="revenue", function=lambda frame: None, group="revenue", topic="clicks", tags="*", sql=None, batch=100,
        linger_ms=0, max_retries=2, start=Start("first"), cluster=ClusterSettings(),
    )  # fmt: skip
    settings = GroupSettings(mode="source", checkpoint="/nowhere")
    return ManagedQuery(taking, settings, Unbranched(None, pause_s=pause_s))


def pauses(query: ManagedQuery, *steps: str) -> list[int]:
    """In milliseconds, of each `end`; a `batch` gets through, a `look` is what the thread does meanwhile."""
    with capture_logs() as lines:
        for number, step in enumerate(steps):
            if step == "end":
                query._wait(OSError("the JVM is gone"))
            elif step == "batch":
                query._handle(Frame(), number)
            else:
                query._look(Query())
    return [line["retry_ms"] for line in lines if line["event"] == "spark query ended"]


def test_pauses_grow_while_no_batch_gets_through() -> None:
    assert [1, 2, 4, 8] == pauses(managed(), "end", "look", "end", "look", "end", "look", "end")


def test_after_a_good_batch_they_begin_anew() -> None:
    query = managed()
    assert [1, 2, 1, 2] == pauses(query, "end", "end", "batch", "look", "end", "end")
    assert "OSError" in query.picture["reason"] or "JVM" in query.picture["reason"]


def test_a_batch_of_the_last_query_says_nothing_of_the_next() -> None:
    """One that ends at once, again and again, would be started a hundred times a minute, for one good batch before."""
    assert [1, 2, 4] == pauses(managed(), "batch", "look", "end", "look", "end", "look", "end")


def test_a_good_batch_takes_the_reason_and_the_standstill_back() -> None:
    query = managed()
    query._query = Query()
    pauses(query, "end")
    assert ("reason" in query.picture, query.idle_ms) == (True, 0)
    pauses(query, "batch", "look")
    query._busy_at -= 5
    assert ("reason" in query.picture, query.idle_ms >= 5_000) == (False, True)


def test_a_batch_that_raises_is_no_good_one(monkeypatch: pytest.MonkeyPatch) -> None:
    query = managed()

    def fails(*_: object) -> Any:
        raise OSError("no broker stores the copies")

    monkeypatch.setattr(query._batches, "failed", fails)
    with pytest.raises(OSError, match="no broker"):
        query._handle(Frame(), 3)
    assert (-1, False) == (query._last_batch, query._is_handling)


def test_no_pause_is_longer_than_the_longest_and_a_stop_ends_it() -> None:
    query = managed(pause_s=PAUSE_MAX_S)
    query._failures = 40
    stopping = threading.Timer(0.0, query.stop, [0])
    stopping.start()
    assert [PAUSE_MAX_S * 1000] == pauses(query, "end")
    stopping.join()
