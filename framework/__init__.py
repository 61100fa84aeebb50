"""Consume Apache RocketMQ from Python: mark functions, describe in YAML how they run.

The public names are loaded when first asked for, so that a process imports only what it uses.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing takes longer to import than all the rest of a command's first steps

if TYPE_CHECKING:
    from framework.client.dialogue.lots import Lots as Lots
    from framework.client.outgoing import SendResult as SendResult
    from framework.client.producer import Producer as Producer
    from framework.client.producing.blocking import SyncProducer as SyncProducer
    from framework.client.producing.publisher import Publisher as Publisher
    from framework.declare import Consumer as Consumer
    from framework.declare import TransactionState as TransactionState
    from framework.declare import consumer as consumer
    from framework.declare import publishes as publishes
    from framework.declare import replies as replies
    from framework.declare import resource as resource
    from framework.declare import transaction_check as transaction_check
    from framework.errors import BodyUnavailable as BodyUnavailable
    from framework.errors import BodyUndecodable as BodyUndecodable
    from framework.errors import BrokerUnreachable as BrokerUnreachable
    from framework.errors import ConfigurationError as ConfigurationError
    from framework.errors import Forked as Forked
    from framework.errors import FrameworkError as FrameworkError
    from framework.errors import PartlySent as PartlySent
    from framework.errors import Refused as Refused
    from framework.errors import RequestTimedOut as RequestTimedOut
    from framework.errors import StoreError as StoreError
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
    from framework.model.queue import MessageQueue as MessageQueue
    from framework.model.retrying import Retry as Retry
    from framework.net.credentials import Credentials as Credentials
    from framework.net.tls import TlsOptions as TlsOptions
    from framework.runtime.app import App as App

_HOME_OF = {
    "Ack": "framework.model.outcome",
    "App": "framework.runtime.app",
    "BatchFailed": "framework.model.outcome",
    "BodyUnavailable": "framework.errors",
    "BodyUndecodable": "framework.errors",
    "BrokerUnreachable": "framework.errors",
    "Commit": "framework.model.outcome",
    "ConfigurationError": "framework.errors",
    "Consumer": "framework.declare",
    "Credentials": "framework.net.credentials",
    "DeadLetter": "framework.model.outcome",
    "Delivery": "framework.model.delivery",
    "Drop": "framework.model.outcome",
    "Extend": "framework.model.outcome",
    "Forked": "framework.errors",
    "FrameworkError": "framework.errors",
    "Lots": "framework.client.dialogue.lots",
    "Message": "framework.model.message",
    "MessageQueue": "framework.model.queue",
    "PartlySent": "framework.errors",
    "Producer": "framework.client.producer",
    "Publisher": "framework.client.producing.publisher",
    "Refused": "framework.errors",
    "RequestTimedOut": "framework.errors",
    "Retry": "framework.model.retrying",
    "RetryLater": "framework.model.outcome",
    "Rollback": "framework.model.outcome",
    "SendResult": "framework.client.outgoing",
    "StoreError": "framework.errors",
    "Suspend": "framework.model.outcome",
    "SyncProducer": "framework.client.producing.blocking",
    "TlsOptions": "framework.net.tls",
    "TransactionState": "framework.declare",
    "consumer": "framework.declare",
    "publishes": "framework.declare",
    "replies": "framework.declare",
    "resource": "framework.declare",
    "transaction_check": "framework.declare",
}

__all__ = [
    "Ack",
    "App",
    "BatchFailed",
    "BodyUnavailable",
    "BodyUndecodable",
    "BrokerUnreachable",
    "Commit",
    "ConfigurationError",
    "Consumer",
    "Credentials",
    "DeadLetter",
    "Delivery",
    "Drop",
    "Extend",
    "Forked",
    "FrameworkError",
    "Lots",
    "Message",
    "MessageQueue",
    "PartlySent",
    "Producer",
    "Publisher",
    "Refused",
    "RequestTimedOut",
    "Retry",
    "RetryLater",
    "Rollback",
    "SendResult",
    "StoreError",
    "Suspend",
    "SyncProducer",
    "TlsOptions",
    "TransactionState",
    "consumer",
    "publishes",
    "replies",
    "resource",
    "transaction_check",
]
__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'framework' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(home), name)
