"""Where Spark looks for `format("rocketmq")`: modules named pyspark_*, whose DefaultSource it registers by itself."""

from framework_spark.datasource import RocketMQ as DefaultSource

__all__ = ["DefaultSource"]
