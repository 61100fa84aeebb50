"""MERGE into a table of Delta, once each message though a batch comes again: the block of docs/spark-sink.md.

Of Spark 4.3 there was no jar of Delta's or Iceberg's yet: Delta's for 4.2 fails there with NoSuchMethodError, Iceberg's
for 4.1 with IncompatibleClassChangeError. The test runs with the Sparks that have one.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pyspark
import pytest

from framework import Message, Producer
from tests.interop import jars
from tests.interop.places import Place
from tests.reading.spark import spark_session

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600), pytest.mark.xdist_group("spark")]

DELTA = {"4.0": "4.4.0", "4.1": "4.4.0", "4.2": "4.4.0"}  # Spark's minor version -> Delta's newest for it
MINOR = ".".join(pyspark.__version__.split(".")[:2])
EXAMPLE = re.search(
    r"```python\n(def merged.*?)```", (Path(__file__).parents[2] / "docs" / "spark-sink.md").read_text(), re.DOTALL
)


@pytest.mark.slow  # CI leaves nothing out, and Delta has no jar for the Spark that it has
@pytest.mark.skipif(MINOR not in DELTA, reason=f"Delta has no jar for Spark {MINOR}")
@pytest.mark.parametrize("place", ["box"], indirect=True)
def test_a_message_is_merged_once_though_its_batch_comes_again(place: Place, tmp_path: Path) -> None:
    minor, version = MINOR, DELTA[MINOR]
    modules = [
        f"io.delta:{name}:{version}"
        for name in (
            f"delta-spark_{minor}_2.13", "delta-storage", "delta-kernel-api", "delta-kernel-defaults",
            "delta-kernel-unitycatalog",
        )
    ]  # fmt: skip
    folder = jars.brought(f"delta-{minor}-{version}", modules, alone=True)
    topic = place.made_topic(queues=2)

    async def send() -> None:
        async with Producer(name_servers=[place.name_server]) as producer:
            for number in range(10):
                await producer.send(Message(topic, f"m{number}"))

    asyncio.run(send())
    with spark_session(
        tmp_path,
        {
            "spark.jars": ",".join(str(path) for path in sorted(folder.glob("*.jar"))),
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        },
    ) as spark:
        columns = "topic string, broker string, queueId int, offset bigint, body binary"
        spark.sql(f"CREATE TABLE orders ({columns}) USING delta")
        stream = (
            spark.readStream.format("rocketmq")
            .schema(columns)
            .options(nameServers=place.name_server, topic=topic, startingOffsets="earliest")
            .load()
        )
        assert EXAMPLE is not None
        for run in range(2):  # a new checkpoint: all of it comes again
            names: dict[str, Any] = {"stream": stream, "checkpoint": str(tmp_path / f"checkpoint-{run}")}
            exec(EXAMPLE[1], names)
            bodies = [bytes(row.body) for row in spark.table("orders").select("body").collect()]
            assert sorted(b"m%d" % number for number in range(10)) == sorted(bodies)
