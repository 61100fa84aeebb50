"""What ends a batch and is not its handler's fault. It imports nothing, since every worker of Spark's imports it."""


class Stopping(Exception):
    """The application ends; what was asked for is delivered again."""


class SessionDied(Exception):
    """A handler failed since its session is no more: the batch runs again when there is one."""
