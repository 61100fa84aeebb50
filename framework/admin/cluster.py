"""Admin: one cluster as an operator reaches it. It finds the brokers, asks one or all, and keeps who did not answer.

What a broker could not say is named beside what the others said: a figure that is not known is never 0.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import TracebackType
from typing import Generic, Self, TypeVar

from framework.admin.memory import Memory
from framework.client.inquiries import clock_in
from framework.client.options import ClusterOptions
from framework.core.broker_time import Reading
from framework.errors import BrokerUnreachable, FrameworkError, ProtocolError, Refused
from framework.model.namespaces import unwrap, wrap
from framework.model.queue import MessageQueue
from framework.model.reserved import TOOLS_GROUP
from framework.net.address import parse_address
from framework.net.real_clock import RealClock
from framework.net.route import Route
from framework.reading.reach import Reach
from framework.reading.settings import ReaderSettings
from framework.wire import exchanges
from framework.wire.bodies.config import KeyValues
from framework.wire.bodies.route import MASTER, ClusterInfo
from framework.wire.codes import ResponseCode
from framework.wire.command import RemotingCommand
from framework.wire.exchanges import Exchange, body_of
from framework.wire.requests.admin import BrokerConfigRequest, BrokerRuntimeRequest
from framework.wire.requests.route import ClusterInfoRequest

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class BrokerPlace:
    """One broker, and where its replicas are."""

    name: str
    cluster: str
    addresses: Mapping[int, str]

    @property
    def master(self) -> str | None:
        """None where only replicas are left."""
        return self.addresses.get(MASTER)


@dataclass(slots=True)
class Answers(Generic[T]):
    """What several brokers answered, and why others did not. Both by the broker's name."""

    found: dict[str, T] = field(default_factory=dict)
    failed: dict[str, FrameworkError] = field(default_factory=dict)

    @property
    def unreachable(self) -> dict[str, str]:
        """Brokers that gave no answer at all, and why; one that refused has answered."""
        return {name: str(error) for name, error in self.failed.items() if not isinstance(error, Refused)}


def _places(answer: RemotingCommand) -> list[BrokerPlace]:
    info = ClusterInfo.decode(answer.body)
    clusters = {name: cluster for cluster, names in info.clusters.items() for name in names}
    return [
        BrokerPlace(name, clusters.get(name, data.cluster or ""), dict(data.broker_addrs))
        for name, data in sorted(info.brokers.items())
    ]


NAMED = "cluster.brokers names it, and no name server knows it"


def _seen(name: str, at_ms: int) -> str:
    at = datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    gone = f"if it was taken away for good: framework-app lag --forget {name}"
    return f"no name server knows it any more; it was there at {at} ({gone})"


BROKERS: Exchange[list[BrokerPlace]] = Exchange(ClusterInfoRequest(), _places)
"""All brokers that a name server knows, sorted by name."""


def _pairs(answer: RemotingCommand) -> dict[str, str]:
    pairs = (line.partition("=") for line in answer.body.decode(errors="replace").splitlines())
    return {name.strip(): text.strip() for name, _, text in pairs}


BROKER_CONFIG: Exchange[dict[str, str]] = Exchange(BrokerConfigRequest(), _pairs)
"""All settings of a broker, which may hold passwords: take the named ones only."""


class Admin:
    """`with Admin(options) as admin: admin.brokers()`. It connects when first asked; one thread at a time.

    Names of topics and groups are the user's at both ends: the namespace is put before them here.
    """

    def __init__(self, options: ClusterOptions, *, memory: Memory | None = None) -> None:
        """`memory`: what earlier looks found; without one, what this one finds."""
        self.namespace = options.namespace
        self.memory = memory or Memory()
        self._expected = options.brokers
        self._away: dict[str, str] = {}
        """Addresses that did not answer, and why: a broker that is away is waited for once, and not for each queue."""
        self.settings = ReaderSettings(
            name_servers=options.name_servers,
            group=TOOLS_GROUP,
            address_map=options.address_map,
            allow=options.allow,
            request_timeout_ms=options.request_timeout_ms,
            retries=1,
        )
        self.reach = Reach(self.settings, credentials=options.credentials, tls=options.tls)

    def wrapped(self, name: str) -> str:
        """The topic or group as the cluster calls it."""
        return wrap(self.namespace, name)

    def unwrapped(self, name: str) -> str:
        """The topic or group as its owner calls it."""
        return unwrap(self.namespace, name)

    # Where things are

    def brokers(self) -> list[BrokerPlace]:
        """All brokers that the name server knows, sorted by name."""
        found = self.reach.ask_name_server(BROKERS)
        self.memory.saw((place.name for place in found), RealClock().now_ms())
        return found

    def absent(self, there: Collection[str]) -> dict[str, str]:
        """Brokers that should be there, and are not: who says so, and the way out."""
        named = {name: NAMED for name in self._expected if name not in there}
        return {**{name: _seen(name, at_ms) for name, at_ms in self.memory.absent(there).items()}, **named}

    def look_again(self) -> None:
        """Who was away is asked again from now on."""
        self._away.clear()

    def ask_name_servers(self, exchange: Exchange[T]) -> Answers[T]:
        """Each name server by itself, by its address as the settings have it: they do not tell each other anything."""
        answers: Answers[T] = Answers()
        for server in self.settings.name_servers:
            try:
                address = str(parse_address(server))
                answers.found[server] = exchange.result(self.reach.request(address, exchange.request()), server)
            except (BrokerUnreachable, ProtocolError, Refused) as error:
                answers.failed[server] = error
        return answers

    def topics(self) -> list[str]:
        """Every topic that the name server knows, as the cluster calls it."""
        known = self.reach.ask_name_server(exchanges.topics())
        return sorted(known)

    def route(self, topic: str) -> Route | None:
        """Where a topic's queues are; None where no name server knows it. The name is the cluster's."""
        return self.reach.route(topic, fresh=True)

    # Asking

    def ask(self, broker: BrokerPlace, exchange: Exchange[T]) -> T:
        """One broker's master. Raises BrokerUnreachable, Refused or ProtocolError."""
        if broker.master is None:
            raise BrokerUnreachable(f"broker {broker.name}: it has no master")
        return exchange.result(self._request(broker.master, exchange.request()), broker.name)

    def ask_through(self, broker: BrokerPlace, exchange: Exchange[T]) -> T:
        """A client, which its broker asks: that no answer comes says nothing of the broker."""
        if broker.master is None:
            raise BrokerUnreachable(f"broker {broker.name}: it has no master")
        self._check_not_away(broker.master)
        return exchange.result(self.reach.request(broker.master, exchange.request()), broker.name)

    def ask_each(self, exchange: Callable[[BrokerPlace], Exchange[T]]) -> Answers[T]:
        """Every broker of the cluster, one after the other."""
        answers: Answers[T] = Answers()
        for broker in self.brokers():
            try:
                answers.found[broker.name] = self.ask(broker, exchange(broker))
            except (BrokerUnreachable, ProtocolError, Refused) as error:
                answers.failed[broker.name] = error
        return answers

    def ask_master(self, queue: MessageQueue, exchange: Exchange[T]) -> T:
        """The master of a queue, by its topic's route."""
        address = self.reach.address(queue.topic, queue.broker)
        return exchange.result(self._request(address, exchange.request()), queue.broker)

    def _request(self, address: str, request: RemotingCommand) -> RemotingCommand:
        self._check_not_away(address)
        try:
            return self.reach.request(address, request)
        except BrokerUnreachable as error:
            self._away[address] = str(error)
            raise

    def _check_not_away(self, address: str) -> None:
        if address in self._away:
            raise BrokerUnreachable(self._away[address])

    def now_ms(self, broker: str, address: str) -> int:
        """What time it is at a broker: ages are told by its clock, not by ours. A stock broker tells whole seconds."""
        return self.clock(broker, address).high_ms

    def clock(self, broker: str, address: str) -> Reading:
        """The same, at least and at most."""
        return clock_in(self.figures(broker, address), broker)

    def figures(self, broker: str, address: str) -> Mapping[str, str]:
        """What a broker counts. A stock one counts without a lock, and now and then fails to: it is asked once more."""
        figures = Exchange(BrokerRuntimeRequest(), body_of(KeyValues))
        answer = self._request(address, figures.request())
        if answer.code == ResponseCode.SYSTEM_ERROR:
            answer = self._request(address, figures.request())
        return figures.result(answer, broker).table

    def close(self) -> None:
        self.reach.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Admin {', '.join(self.settings.name_servers)}>"
