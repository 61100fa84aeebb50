"""Route: where a topic's queues are, out of what a name server said, held within limits. It asks nobody."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf

import structlog

from framework.errors import ConfigurationError, ProtocolError, shorten
from framework.model.queue import MessageQueue
from framework.net.address import parse_address
from framework.wire.bodies.route import MASTER, PERM_READ, PERM_WRITE, TopicRoute

log = structlog.get_logger()

BROKERS_MAX = 1_024
DOUBT_SECONDS = 35.0  # brokers register anew each 30 s; a name server that was started anew has heard of all by then
AWAY_SECONDS = 90.0  # most brokers that are restarted are back by then, and until they are nobody can have their queues
GIVEN_UP_SECONDS = 600.0  # for so long one that does come back is looked for
QUEUES_MAX = 16_384  # of one topic; RocketMQ's own BenchmarkTest has 1,024 a broker


@dataclass(frozen=True, slots=True)
class Route:
    """One topic's route, checked."""

    readable: tuple[MessageQueue, ...]
    """Sorted as every member sorts them."""
    writable: tuple[MessageQueue, ...]
    addresses: dict[str, dict[int, str]]
    """Broker name -> broker id (0 is the master) -> address."""
    order: tuple[MessageQueue, ...] = ()
    """The queues that order keys are spread over, whichever brokers are there, where the name server holds them
    (`mqadmin updateOrderConf`).
    """
    clusters: tuple[str, ...] = ()
    """What the brokers' clusters are called, sorted."""
    away: Mapping[str, float] = field(default_factory=dict)
    """Brokers that no name server names and nobody reaches, which are expected back -> since when (seconds)."""


@dataclass(frozen=True, slots=True)
class Contact:
    """Whether we are connected to an address, or were until then."""

    since: float
    is_open: bool


class Doubt:
    """Brokers of one topic that its name server does not name any more.

    A name server that was started anew knows those alone that have registered since, and it forgets a broker at once
    whose connection ends. So a broker that it leaves out is kept while we are connected to it, until it has been left
    out for longer than registering takes; and one that went away is kept for as long as a restart takes, for reading.
    Were it given up, its queues and the others' would be divided anew, and once more when it is back.
    """

    def __init__(self) -> None:
        self.missing: dict[str, float] = {}
        """Broker name -> since when."""
        self._given_up: dict[str, float] = {}

    @property
    def is_open(self) -> bool:
        """Whether a broker may soon be named again: all members are to hear of it at about the same time."""
        return bool(self.missing or self._given_up)

    def resolve(self, before: Route | None, told: Route, contact: Callable[[str], Contact | None], now: float) -> Route:
        """The route to go by: what was told, and what is kept of the one before."""
        lost = {} if before is None else {n: each for n, each in before.addresses.items() if n not in told.addresses}
        missing, away = dict[str, float](), dict[str, float]()
        for name, addresses in lost.items():
            since = self.missing.get(name, now)
            found = [each for each in map(contact, addresses.values()) if each is not None]
            there = [each.since for each in found if each.is_open]
            gone = max((each.since for each in found), default=-inf)
            if there:
                is_kept = now < max(since, *there) + DOUBT_SECONDS
            else:
                is_kept = now < gone + AWAY_SECONDS
            if is_kept and now < since + DOUBT_SECONDS + AWAY_SECONDS:
                missing[name] = since
                if not there:
                    away[name] = gone
        self._given_up |= dict.fromkeys(lost.keys() - missing.keys(), now)
        self._given_up = {
            name: at
            for name, at in self._given_up.items()
            if name not in told.addresses and now < at + GIVEN_UP_SECONDS
        }
        self.missing = missing
        if before is None or not missing:
            return told
        return Route(
            _with(told.readable, [queue for queue in before.readable if queue.broker in missing]),
            _with(told.writable, [queue for queue in before.writable if queue.broker in missing.keys() - away.keys()]),
            told.addresses | {name: lost[name] for name in missing},
            told.order,
            told.clusters,
            away,
        )


def _with(queues: tuple[MessageQueue, ...], more: list[MessageQueue]) -> tuple[MessageQueue, ...]:
    return tuple(sorted((*queues, *more)))


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
    clusters = tuple(sorted({broker.cluster for broker in answer.brokers if broker.cluster}))
    return Route(
        tuple(sorted(readable)), tuple(sorted(writable)), addresses, _ordered(topic, answer.order_conf), clusters
    )


def _ordered(topic: str, text: str | None) -> tuple[MessageQueue, ...]:
    """`broker-a:4;broker-b:4` as queues, in the order in which it names them, as Java has it."""
    queues: list[MessageQueue] = []
    for part in (text or "").rstrip(";").split(";") if text else ():
        broker, _, digits = part.partition(":")
        if not broker or not digits.isdecimal() or len(digits) > 5 or len(queues) + int(digits) > QUEUES_MAX:
            log.warning("order configuration refused", topic=topic, reason=f"{shorten(part)} in {shorten(text)}")
            return ()
        queues += (MessageQueue(topic, broker, number) for number in range(int(digits)))
    return tuple(queues)
