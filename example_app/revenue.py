"""Revenue: per minute and article, by Spark. From orders to a table on disk, and back to the topic `revenue`.

It needs `framework-app-spark`, so it is not part of `framework-app.yaml`: `revenue.yaml` beside it runs it.

The table of orders only grows, and is read by message id, so a duplicate order counts once. A late order is added to
its minute, whose total is written and sent again. A reader of `revenue` keeps the last total per key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from framework import consumer

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import DataFrame, SparkSession

ORDER = "number string, article string, cents bigint"


@consumer("orders", group="revenue", engine="spark", batch=1000, linger="5s")
def revenue(orders: DataFrame) -> DataFrame:
    """Orders without an article or a price go to the dead-letter queue, each alone; all others are counted."""
    from pyspark.sql import functions as f

    spark = orders.sparkSession
    table = str(spark.conf.get("spark.revenue.table"))
    lines = orders.withColumn("order", f.from_json(f.col("body").cast("string"), ORDER))
    is_sound = f.col("order.article").isNotNull() & f.col("order.cents").isNotNull()
    counted = lines.where(is_sound).select(
        f.window("bornTime", "1 minute").start.alias("minute"), "msgId", "order.article", "order.cents"
    )
    counted.write.mode("append").partitionBy("minute").parquet(f"{table}/orders")

    minutes = [row.minute for row in counted.select("minute").distinct().collect()]
    if minutes:
        _write_totals(spark, table, minutes)
    return lines.where(~is_sound).selectExpr(
        "topic", "broker", "queueId", "offset", "'dead_letter' verdict", "'no article or no price' reason"
    )


def _write_totals(spark: SparkSession, table: str, minutes: list[datetime]) -> None:
    """Of the minutes that have changed, from all their orders, and sent to the cluster that the orders come from."""
    from framework_spark import cluster_of
    from pyspark.sql import functions as f

    totals = (
        spark.read.parquet(f"{table}/orders")
        .where(f.col("minute").isin(minutes))
        .dropDuplicates(["msgId"])
        .groupBy("minute", "article")
        .agg(f.sum("cents").alias("cents"), f.count("*").alias("orders"))
    )
    totals.write.mode("overwrite").option("partitionOverwriteMode", "dynamic").partitionBy("minute").parquet(
        f"{table}/revenue"
    )
    sent = totals.select(
        f.to_json(f.struct("minute", "article", "cents", "orders")).alias("body"),
        f.concat_ws("/", "minute", "article").alias("key"),
    )
    sent.write.format("rocketmq").options(**cluster_of(spark), topic="revenue").mode("append").save()
