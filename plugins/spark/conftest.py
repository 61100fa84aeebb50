"""One built-in broker, and one Spark session for all tests that need one: a JVM takes seconds to start."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from typing import Any

import pytest
from framework_spark.datasource import RocketMQ
from framework_spark.kept import close_resting
from framework_spark.schema import SCHEMA
from framework_spark.source import StreamReader
from pyspark.sql.datasource import CaseInsensitiveDict

from framework.reading import Reader, ReaderSettings
from tests.reading.spark import spark_session
from tests.reading.threads import ThreadBox, thread_box


@pytest.fixture(scope="session")
def box() -> Iterator[ThreadBox]:
    with thread_box(brokers=2) as box:
        yield box
        close_resting()


@pytest.fixture
def reader(box: ThreadBox) -> Iterator[Reader]:
    with Reader(ReaderSettings((box.address,))) as reader:
        yield reader


@pytest.fixture(scope="session")
def _numbers() -> Callable[[], int]:
    numbers = count()
    return lambda: next(numbers)


@pytest.fixture
def topic(_numbers: Callable[[], int]) -> str:
    return f"spark-{_numbers()}"


@pytest.fixture
def stream(box: ThreadBox) -> Iterator[Callable[..., StreamReader]]:
    """`stream(topic="orders", failOnDataLoss="false")` makes readers of a stream, and stops them.

    They begin at the first offsets; `kind` is the class behind the format.
    """
    with ExitStack() as stack:

        def make(kind: type[RocketMQ] = RocketMQ, **options: str) -> StreamReader:
            given = {"nameServers": box.address, "startingOffsets": "earliest", **options}
            reader = kind(CaseInsensitiveDict(given)).streamReader(SCHEMA)
            assert isinstance(reader, StreamReader)
            stack.callback(reader.stop)
            return reader

        yield make


def pytest_itemcollected(item: pytest.Item) -> None:
    """Whoever has the session is of one group, which one process runs: else each process starts a JVM of its own."""
    if "spark" in getattr(item, "fixturenames", ()):
        item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with spark_session(tmp_path_factory.mktemp("spark")) as session:
        yield session
