"""Errors that end a batch and are not its handler's fault. It imports nothing: every worker of Spark imports it."""

from __future__ import annotations


class Stopping(Exception):
    """The application ends; what was asked for is delivered again."""


class SessionDied(Exception):
    """A handler failed since its session is no more: the batch runs again when there is one."""


class HeldUp(Exception):
    """The reading of a batch failed, or Spark itself, and not the handler: the batch waits, and runs again."""
