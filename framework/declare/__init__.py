"""What a function consumes, said at the function: `@consumer` and the frozen spec that it makes."""

from framework.declare.decorator import Consumer as Consumer
from framework.declare.decorator import ConsumerSpec as ConsumerSpec
from framework.declare.decorator import consumer as consumer
from framework.declare.publishing import publishes as publishes
from framework.declare.resources import Resource as Resource
from framework.declare.resources import resource as resource

__all__ = ["Consumer", "ConsumerSpec", "Resource", "consumer", "publishes", "resource"]
