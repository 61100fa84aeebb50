"""What a function consumes, said at the function: `@consumer` and the frozen spec that it makes."""

from framework.declare.decorator import Consumer as Consumer
from framework.declare.decorator import ConsumerSpec as ConsumerSpec
from framework.declare.decorator import consumer as consumer
from framework.declare.publishing import publishes as publishes
from framework.declare.publishing import replies as replies
from framework.declare.resources import Resource as Resource
from framework.declare.resources import resource as resource
from framework.declare.transactions import TransactionCheck as TransactionCheck
from framework.declare.transactions import TransactionState as TransactionState
from framework.declare.transactions import transaction_check as transaction_check

__all__ = [
    "Consumer", "ConsumerSpec", "Resource", "TransactionCheck", "TransactionState", "consumer", "publishes", "replies",
    "resource", "transaction_check",
]  # fmt: skip
