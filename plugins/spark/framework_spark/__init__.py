"""RocketMQ as a source and a sink of Spark. `datasource.py` is where Spark comes in."""
