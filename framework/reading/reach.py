"""Reach: which name server and which broker answer, over links that are opened when first needed.

It owns the links, the routes and the choice among name servers. A route is asked for again when something was not where
it says. It knows what a route means, and no other request.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from threading import Event
from typing import TypeVar

from framework.errors import BrokerUnreachable, ConnectionLost, ProtocolError, Refused, no_name_server
from framework.net.address import AllowList, parse_address
from framework.net.credentials import Credentials
from framework.net.real_clock import RealClock
from framework.net.real_world import RealChance
from framework.net.route import Route, checked
from framework.net.tls import TlsOptions, client_context
from framework.reading.link import Link, Sign
from framework.reading.settings import ReaderSettings
from framework.wire import exchanges
from framework.wire.bodies.route import MASTER
from framework.wire.codes import ResponseCode
from framework.wire.command import RemotingCommand
from framework.wire.exchanges import Exchange

T = TypeVar("T")


class Reach:
    """What one reader has open. Not to be shared between threads, and never pickled."""

    def __init__(
        self,
        settings: ReaderSettings,
        *,
        credentials: Credentials | None = None,
        tls: TlsOptions | None = None,
        counts: Counts | None = None,
    ) -> None:
        """`credentials` and `tls`: for who has them at hand, in place of those that the settings refer to."""
        self._settings = settings
        self.counts = Counts() if counts is None else counts
        tls = tls or settings.tls
        self._context: ssl.SSLContext | None = client_context(tls) if tls is not None else None
        self._server_name = tls.server_name if tls is not None else ""
        credentials = credentials or settings.resolve_credentials()
        self._sign: Sign | None = credentials.sign if credentials is not None else None
        self._map = {str(parse_address(told)): reachable for told, reachable in settings.address_map.items()}
        self._servers = tuple(str(parse_address(server, "name server")) for server in settings.name_servers)
        self._chosen = RealChance().below(len(self._servers))  # so that a cluster's executors spread
        self._allow = AllowList(settings.allow)
        self._links: dict[str, Link] = {}
        self._routes: dict[str, Route] = {}

    # Name servers

    def ask_name_server(self, exchange: Exchange[T]) -> T:
        """The first result. Else the last refusal, or NotConnected with the names of all."""
        failed: list[str] = []
        refused: Refused | None = None
        for step in range(len(self._servers)):
            index = (self._chosen + step) % len(self._servers)
            server = self._servers[index]
            try:
                answer = exchange.accepted(self.request(server, exchange.request()), server)
            except Refused as error:
                refused = error
            except (BrokerUnreachable, ProtocolError) as error:
                failed.append(str(error))
            else:
                self._chosen = index
                return exchange.read(answer)
        if refused is not None:
            raise refused
        raise no_name_server(failed)

    def route(self, topic: str, *, fresh: bool = False) -> Route | None:
        """Where the topic is; None where no name server knows it. `fresh` asks again."""
        if not fresh and topic in self._routes:
            return self._routes[topic]
        found = self.ask_name_server(exchanges.route(topic))
        self._routes.pop(topic, None)
        if found is None:
            return None
        route = self._routes[topic] = checked(topic, found)
        return route

    def address(self, topic: str, broker: str, replica: int = MASTER, *, fresh: bool = False) -> str:
        """A replica's address by the topic's route. BrokerUnreachable where the route has none."""
        try:
            route = self.route(topic, fresh=fresh)
        except BrokerUnreachable:
            route = self._routes.get(topic)  # the brokers may be well where all name servers are down
            if route is None:
                raise
        replicas = route.addresses.get(broker, {}) if route is not None else {}
        if replica not in replicas:
            known = ", ".join(sorted(route.addresses)) if route is not None else "none"
            kind = "no master" if replica == MASTER else f"no replica {replica}"
            raise BrokerUnreachable(f"broker {broker}: {kind} in the route of {topic} (brokers there: {known})")
        return replicas[replica]

    def other_replica(self, topic: str, broker: str, tried: int) -> int:
        """A replica to be tried after this one has failed; the master where there is no other."""
        route = self._routes.get(topic)
        others = sorted(number for number in route.addresses.get(broker, {}) if number != tried) if route else []
        return others[0] if others else MASTER

    # Links

    def link(self, address: str) -> Link:
        """An open link, connecting first where needed. BrokerUnreachable."""
        link = self._links.get(address)
        if link is None or not link.is_open:
            target = parse_address(self._map.get(address, address))
            # Name servers were given by the user, so the list is not about them.
            allow = None if address in self._servers else self._allow
            link = self._links[address] = Link(
                target, context=self._context, server_name=self._server_name, sign=self._sign, allow=allow
            )
        return link

    def request(self, address: str, request: RemotingCommand) -> RemotingCommand:
        """The answer, whatever its code; once more on a fresh link where the peer went away without blame."""
        timeout_ms = self._settings.request_timeout_ms
        kept = self._links.get(address)
        try:
            answer = self.link(address).request(request, timeout_ms=timeout_ms)
        except ConnectionLost:
            if kept is None or kept is not self._links[address]:
                raise
            # Servers close what was quiet for two minutes, which says nothing of how they are.
            answer = self.link(address).request(request, timeout_ms=timeout_ms)
        if answer.code == ResponseCode.GO_AWAY:
            self._links.pop(address).close()
            answer = self.link(address).request(request, timeout_ms=timeout_ms)
            if answer.code == ResponseCode.GO_AWAY:
                raise BrokerUnreachable(f"{address}: told to go away, also on a fresh connection")
        return answer

    def drop_dead(self) -> None:
        """Close links that ended at the other end, or that an answer may still come by."""
        for address, link in list(self._links.items()):
            if not link.is_quiet():
                self._links.pop(address).close()

    def attempts(self) -> Iterator[int]:
        """Their numbers from 0 on, with a pause between two, until both retries and patience are used up."""
        until = RealClock.monotonic() + self._settings.patience_ms / 1000
        attempt = 0
        while attempt <= self._settings.retries or RealClock.monotonic() < until:
            if attempt:
                self.stand_back(attempt - 1)
            yield attempt
            attempt += 1

    def lacks(self, topic: str, broker: str) -> bool:
        """Whether name servers say that the broker is there, and the topic not on it: waiting brings nothing.

        A broker that restarts is in no route, either, but it is not registered at all.
        """
        try:
            route = self.route(topic, fresh=True)
            return (route is None or broker not in route.addresses) and broker in self.brokers()
        except (BrokerUnreachable, Refused, ProtocolError):
            return False

    def brokers(self) -> frozenset[str]:
        """The brokers that are registered now."""
        return self.ask_name_server(exchanges.broker_names())

    def stand_back(self, attempt: int) -> None:
        """Pause before the next attempt: 0.1 s, doubled each time, up to 2 s."""
        pause = min(0.1 * 2 ** min(attempt, 5), 2.0)
        self.counts.waits += 1
        self.counts.waited_ms += round(pause * 1000)
        Event().wait(pause)

    def close(self) -> None:
        for link in self._links.values():
            link.close()
        self._links.clear()
        self._routes.clear()


@dataclass(slots=True)
class Counts:
    """What one reader did at the brokers since it was made."""

    pulls: int = 0
    """Answered ones."""
    empty_pulls: int = 0
    """Of these, such that brought no message."""
    bytes: int = 0
    """Of the messages that they brought."""
    waits: int = 0
    """Pauses before a request was made again."""
    waited_ms: int = 0
    """All pauses together."""
    passed_over: int = 0
    """Each damaged message and each run of offsets that is gone, as far as who reads went on nevertheless."""
