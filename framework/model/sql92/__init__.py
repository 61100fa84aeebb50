"""SQL92 filter expressions over the properties of a message, with RocketMQ's meaning."""

from framework.model.sql92.parser import Expression, parse

__all__ = ["Expression", "parse"]
