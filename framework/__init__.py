"""Consume Apache RocketMQ from Python: mark functions, describe in YAML how they run.

The public names are loaded when first asked for, so that a process imports only what it uses.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing takes longer to import than all the rest of a command's first steps

if TYPE_CHECKING:
    from framework.client.producer import Producer as Producer
    from framework.declare import Consumer as Consumer
    from framework.declare import consumer as consumer
    from framework.declare import publishes as publishes
    from framework.declare import resource as resource
    from framework.model.delivery import Delivery as Delivery
    from framework.model.message import Message as Message
    from framework.model.outcome import Ack as Ack
    from framework.model.outcome import BatchFailed as BatchFailed
    from framework.model.outcome import Commit as Commit
    from framework.model.outcome import DeadLetter as DeadLetter
    from framework.model.outcome import Drop as Drop
    from framework.model.outcome import Extend as Extend
    from framework.model.outcome import RetryLater as RetryLater
    from framework.model.outcome import Rollback as Rollback
    from framework.model.outcome import Suspend as Suspend
    from framework.model.retrying import Retry as Retry
    from framework.runtime.app import App as App

_HOME_OF = {
    "Ack": "framework.model.outcome",
    "App": "framework.runtime.app",
    "BatchFailed": "framework.model.outcome",
    "Commit": "framework.model.outcome",
    "Consumer": "framework.declare",
    "DeadLetter": "framework.model.outcome",
    "Delivery": "framework.model.delivery",
    "Drop": "framework.model.outcome",
    "Extend": "framework.model.outcome",
    "Message": "framework.model.message",
    "Producer": "framework.client.producer",
    "Retry": "framework.model.retrying",
    "RetryLater": "framework.model.outcome",
    "Rollback": "framework.model.outcome",
    "Suspend": "framework.model.outcome",
    "consumer": "framework.declare",
    "publishes": "framework.declare",
    "resource": "framework.declare",
}

__all__ = [
    "Ack",
    "App",
    "BatchFailed",
    "Commit",
    "Consumer",
    "DeadLetter",
    "Delivery",
    "Drop",
    "Extend",
    "Message",
    "Producer",
    "Retry",
    "RetryLater",
    "Rollback",
    "Suspend",
    "consumer",
    "publishes",
    "resource",
]
__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'framework' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(home), name)
