"""One broker in the box, and one Spark session for all tests that need one: a JVM takes seconds to start."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from framework.reading import Reader, ReaderSettings
from tests.reading.threads import ThreadBox, thread_box


@pytest.fixture(scope="session")
def box() -> Iterator[ThreadBox]:
    with thread_box(brokers=2) as box:
        yield box


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


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Small and quiet, with workers of this interpreter. A quick compiler and one thread for garbage: half the CPU."""
    from pyspark.sql import SparkSession

    os.environ.update(PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1")
    folder = tmp_path_factory.mktemp("spark")
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.driver.host": "127.0.0.1",
        "spark.log.level": "OFF",
        "spark.python.authenticate.socketTimeout": "120s",  # of a busy machine
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.checkpointLocation": str(folder / "checkpoints"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local[2,3]").appName("tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()
