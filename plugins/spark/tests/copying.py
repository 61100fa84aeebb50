"""A driver for tests: copies a topic for as long as it lives, and starts its query anew when that ends.

python copying.py NAME_SERVER TOPIC TARGET CHECKPOINT SESSION_FOLDER

TARGET is a folder of Parquet, or `topic:NAME`: a message for each, with the place of its own in the body.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from framework_spark.managed import loaded

from tests.reading.spark import spark_session


def main(name_server: str, topic: str, target: str, checkpoint: str, folder: str) -> None:
    Path(folder).mkdir()
    with spark_session(Path(folder)) as spark:
        while True:
            try:
                _copy(spark, name_server, topic, target, checkpoint)
            except Exception as error:  # noqa: BLE001  # whatever it was, the query goes on at its checkpoint
                print(f"ended: {type(error).__name__}: {str(error)[:300]}", flush=True)  # noqa: T201  # into the log
            time.sleep(0.5)


def _copy(spark: Any, name_server: str, topic: str, target: str, checkpoint: str) -> None:
    source = spark.readStream.format("rocketmq").options(
        nameServers=name_server, topic=topic, group="copying", startingOffsets="earliest"
    )
    frame = loaded(source.options(maxOffsetsPerTrigger=500, minPartitions=4), spark)
    if target.startswith("topic:"):
        frame = frame.selectExpr("concat_ws('/', broker, queueId, offset) body")
        options = {"nameServers": name_server, "topic": target[6:], "transactional": "true", "unconfirmedWait": "1s"}
        query = frame.writeStream.format("rocketmq").options(**options)
    else:
        query = frame.writeStream.format("parquet").option("path", target)
    query.option("checkpointLocation", checkpoint).start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
