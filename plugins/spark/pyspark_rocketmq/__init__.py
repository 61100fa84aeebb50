"""Where Spark looks for `format("rocketmq")`: it registers the DefaultSource of every module named pyspark_*."""

from framework_spark.datasource import RocketMQ as DefaultSource

__all__ = ["DefaultSource"]
