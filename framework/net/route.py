"""Route: where a topic's queues are, out of what a name server said, held within limits. It asks nobody."""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from framework.errors import ConfigurationError, ProtocolError, shorten
from framework.model.queue import MessageQueue
from framework.net.address import parse_address
from framework.wire.bodies.route import MASTER, PERM_READ, PERM_WRITE, TopicRoute

log = structlog.get_logger()

BROKERS_MAX = 1_024
QUEUES_MAX = 16_384  # of one topic; RocketMQ's own BenchmarkTest has 1,024 a broker


@dataclass(frozen=True, slots=True)
class Route:
    """One topic's route, checked."""

    readable: tuple[MessageQueue, ...]
    """Sorted as every member sorts them."""
    writable: tuple[MessageQueue, ...]
    addresses: dict[str, dict[int, str]]
    """Broker name -> broker id (0 is the master) -> address."""


def checked(topic: str, answer: TopicRoute) -> Route:
    """The route within its limits; an address that cannot be dialled is left out and named.

    Its queues stay: all members of a group must divide the same ones, whatever each of them can reach.
    """
    if len(answer.brokers) > BROKERS_MAX or len(answer.queues) > BROKERS_MAX:
        raise ProtocolError(f"route of {topic} names {len(answer.brokers)} brokers, above the limit of {BROKERS_MAX}")
    total = sum(max(data.read_queue_nums, data.write_queue_nums, 0) for data in answer.queues)
    if total > QUEUES_MAX:
        raise ProtocolError(f"route of {topic} has {total} queues, above the limit of {QUEUES_MAX}")
    addresses: dict[str, dict[int, str]] = {}
    for broker in answer.brokers:
        replicas = addresses[broker.broker_name] = {}
        for broker_id, address in sorted(broker.broker_addrs.items()):
            try:
                replicas[broker_id] = str(parse_address(address, f"address of broker {shorten(broker.broker_name)}"))
            except ConfigurationError as error:
                log.warning("broker address refused", topic=topic, broker=broker.broker_name, reason=str(error))
    readable: dict[MessageQueue, None] = {}
    writable: dict[MessageQueue, None] = {}
    for data in answer.queues:
        if data.perm & PERM_READ:
            readable |= dict.fromkeys(MessageQueue(topic, data.broker_name, n) for n in range(data.read_queue_nums))
        if data.perm & PERM_WRITE and MASTER in addresses.get(data.broker_name, {}):
            writable |= dict.fromkeys(MessageQueue(topic, data.broker_name, n) for n in range(data.write_queue_nums))
    return Route(tuple(sorted(readable)), tuple(sorted(writable)), addresses)
