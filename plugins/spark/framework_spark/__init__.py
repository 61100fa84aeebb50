"""RocketMQ as a source and a sink of Spark. `datasource.py` is where Spark comes in."""

from framework_spark.splitting import side_effect_free

__all__ = ["side_effect_free"]
