"""A driver for tests: copies a topic into Parquet for as long as it lives, and starts its query anew when that ends.

python copying.py NAME_SERVER TOPIC TABLE CHECKPOINT SESSION_FOLDER
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from framework_spark.managed import loaded

from tests.reading.spark import spark_session


def main(name_server: str, topic: str, table: str, checkpoint: str, folder: str) -> None:
    Path(folder).mkdir()
    with spark_session(Path(folder)) as spark:
        while True:
            try:
                _copy(spark, name_server, topic, table, checkpoint)
            except Exception as error:  # noqa: BLE001  # whatever it was, the query goes on at its checkpoint
                print(f"ended: {type(error).__name__}: {str(error)[:300]}", flush=True)  # noqa: T201  # into the log
            time.sleep(0.5)


def _copy(spark: Any, name_server: str, topic: str, table: str, checkpoint: str) -> None:
    source = spark.readStream.format("rocketmq").options(
        nameServers=name_server, topic=topic, group="copying", startingOffsets="earliest"
    )
    query = loaded(source.option("maxOffsetsPerTrigger", 500), spark).writeStream.format("parquet")
    query.option("path", table).option("checkpointLocation", checkpoint).start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
