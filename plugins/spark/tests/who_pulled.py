"""A driver for tests: reads the topic `orders` once, and says on which executor each queue was read.

python who_pulled.py MASTER NAME_SERVER: the last line is JSON, [[queue, the executor's folder], ...].
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession


def places(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """In the task that reads: one row a batch. An executor of a standalone cluster has a folder of its own."""
    for batch in batches:
        if batch.num_rows:
            queue = batch.column("queueId").slice(0, 1)
            yield pa.RecordBatch.from_arrays([queue, pa.array([str(Path.cwd())])], names=["queueId", "place"])


def main(master: str, name_server: str) -> None:
    given = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "600m",
        "spark.log.level": "OFF",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",  # both executors, or one has it all to itself
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master(master).appName("who pulled")
    for name, value in given.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    orders = spark.read.format("rocketmq").options(nameServers=name_server, topic="orders").load()
    rows = orders.select("queueId", "offset").mapInArrow(places, "queueId int, place string").collect()
    spark.stop()
    sys.stdout.write(json.dumps([list(row) for row in rows]) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
