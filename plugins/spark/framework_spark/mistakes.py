"""What can be wrong with how Spark is used, and what ends a batch that is not its handler's fault."""

from __future__ import annotations

from framework.errors import ConfigurationError


class SparkMisused(ConfigurationError):
    id = "FA-K001"


class SparkMissing(ConfigurationError):
    id = "FA-K002"


class Stopping(Exception):
    """The application ends; what was asked for is delivered again."""


class SessionDied(Exception):
    """A handler failed since its session is no more: the batch runs again when there is one."""


class HeldUp(Exception):
    """The reading of a batch failed, or Spark itself, and not the handler: the batch waits, and runs again."""
