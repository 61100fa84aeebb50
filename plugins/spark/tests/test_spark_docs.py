"""docs/spark.md: its examples run, and its tables name every option and column."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from framework_spark import options
from framework_spark.runner import SparkRunner
from framework_spark.schema import SCHEMA
from framework_spark.sessions import SessionsOfThisProcess
from framework_spark.settings import SparkSettings
from framework_spark.sink import TYPES

from framework import Message
from framework.model.outcome import DeadLetter
from framework.model.queue import MessageQueue
from framework.reading import Reader, ReaderSettings
from framework.testing import Harness
from tests.interop.processes import wait_until
from tests.reading.threads import ThreadBox, thread_box

TEXT = (Path(__file__).parents[3] / "docs" / "spark.md").read_text()

EXAMPLES = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


@pytest.mark.parametrize("name", sorted({*options.BATCH, *options.STREAM, *options.SINK, *SCHEMA.fieldNames(), *TYPES}))
def test_everything_has_its_place_in_the_page(name: str) -> None:
    assert f"`{name}`" in TEXT


def test_a_consumer_drops_rows_that_spark_repeated(capfd: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"__name__": __name__}
    exec(EXAMPLES[4], names)

    with Harness(names["ledger"]) as desk:
        for row in (0, 1, 0, 2, 1):
            desk.send("paid", f"m{row}", properties={"SPARK_ROW": f"query/7/0/{row}"})
        desk.settle()

    lines = capfd.readouterr().out.splitlines()  # the log's among them
    assert ["m0", "m1", "m2"] == sorted(line for line in lines if line.startswith("m"))


@pytest.mark.timeout(600)
@pytest.mark.xdist_group("spark")
def test_the_examples_run(spark: Any, tmp_path: Path) -> None:
    with thread_box() as box, Reader(ReaderSettings((box.address,))) as reader:  # for its topics have plain names
        _run_examples(spark, box, reader, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.xdist_group("spark")
def test_the_mirror_s_example_runs(spark: Any, tmp_path: Path) -> None:
    """`make slow PART=mirror_s_example`: a query of one batch an hour, whose offsets the brokers have at once."""
    with thread_box() as box, Reader(ReaderSettings((box.address,))) as reader:
        box.send("orders", [Message("orders", f"m{n}") for n in range(7)], queue=0)
        exec(EXAMPLES[5], {"spark": spark, "name_servers": box.address})
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


def _run_examples(spark: Any, box: ThreadBox, reader: Reader, tmp_path: Path) -> None:
    batch, stream, handler, splitting, *_ = EXAMPLES
    box.send("orders", [Message("orders", f"m{n}", tags="red" if n % 2 else "blue") for n in range(6)], queue=0)
    names: dict[str, Any] = {
        "spark": spark, "name_servers": box.address, "checkpoint": str(tmp_path / "checkpoint")
    }  # fmt: skip

    exec(batch, names)
    assert ["m1", "m3", "m5"] == [row.body for row in names["red"].collect()]

    exec(stream, names)
    assert names["query"].exception() is None
    assert 6 == sum(reader.max_offset(queue) for queue in reader.queues("paid"))

    exec(handler, names)
    run = SparkRunner(_Given(spark)).prepared(names["revenue"].spec.function, "revenue", "revenue")
    queue = MessageQueue("clicks", "broker-a", 0)
    bodies = ["1.5", "free", "2"]
    clicks = [Message("clicks", body, tags="a", queue=queue, queue_offset=n) for n, body in enumerate(bodies)]

    assert [None, DeadLetter("no price"), None] == run(clicks)

    exec(splitting, names)
    split: Any = SparkRunner(_Given(spark)).prepared(names["totals"].spec.function, "totals", "totals")(clicks)
    assert [None, "CAST_INVALID_INPUT", None] == [each and each.getCondition() for each in split]


class _Given:
    """The suite's session; it is never to be made again."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def make(self) -> Any:
        return self._session

    def branch(self, session: Any) -> Any:
        return session.newSession()

    def is_alive(self, session: Any) -> bool:
        return SessionsOfThisProcess(SparkSettings()).is_alive(session)
