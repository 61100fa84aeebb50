"""Errors that end a batch and are not its handler's fault. It imports nothing: every worker of Spark imports it."""


class Stopping(Exception):
    """The application ends; what was asked for is delivered again."""


class SessionDied(Exception):
    """A handler failed since its session is no more: the batch runs again when there is one."""
