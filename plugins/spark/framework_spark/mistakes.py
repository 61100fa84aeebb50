"""What can be wrong with how Spark is used; `framework-app explain ID` prints the page of an id."""

from __future__ import annotations

from framework.errors import ConfigurationError


class SparkMisused(ConfigurationError):
    id = "FA-K001"


class SparkMissing(ConfigurationError):
    id = "FA-K002"
