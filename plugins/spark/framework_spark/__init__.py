"""RocketMQ as a source and a sink of Spark. Spark enters through `datasource.py`."""

from framework_spark.splitting import side_effect_free

__all__ = ["side_effect_free"]
